"""Text that arrives in pieces, broken between words and made harmless.

A word is held back until it is whole, so that it can go to the next line; line breaks of the text stay. What
a model says may hold sequences that steer a terminal: nothing but printable characters gets through.
"""

import re
from typing import Final

from rich.cells import cell_len

TAB: Final = 4
_PARTS: Final = re.compile(r"\n| +|[^ \n]+")


class StreamWrapper:
    """`width` 0: lines are as long as they come. `column` is where the cursor stands."""

    def __init__(self, width: int = 0) -> None:
        self._width = width
        self._word = ""
        self._blanks = 0
        self.column = 0

    def feed(self, piece: str) -> str:
        """What can be written now."""
        said = [self._part(part) for part in _PARTS.findall(sanitize_text(piece))]
        return "".join(said)

    def ended(self) -> str:
        """The rest, and a line break where the text has none."""
        last = self._flushed()
        self._blanks = 0
        closes = "\n" if self.column else ""
        self.column = 0
        return last + closes

    def _part(self, part: str) -> str:
        if part == "\n":
            said = self._flushed() + "\n"
            self.column = self._blanks = 0
            return said
        if part[0] == " ":
            said = self._flushed()
            self._blanks += len(part)
            return said
        self._word += part
        # Without a width there is nothing to wait for.
        return "" if self._width else self._flushed()

    def _flushed(self) -> str:
        if not self._word:
            return ""
        word, self._word = self._word, ""
        blanks, self._blanks = " " * self._blanks, 0
        if not self._width:
            self.column += len(blanks) + len(word)
            return blanks + word
        if self.column and self.column + len(blanks) + cell_len(word) > self._width:
            self.column = 0
            return "\n" + self._filled(word)
        if len(blanks) >= self._width:
            # An indentation that leaves no room for anything.
            blanks = ""
        self.column += len(blanks)
        return blanks + self._filled(word)

    def _filled(self, word: str) -> str:
        """A word that is longer than a line goes on below."""
        if self.column + cell_len(word) <= self._width:
            self.column += cell_len(word)
            return word
        said = ""
        for each in word:
            if self.column + cell_len(each) > self._width:
                said, self.column = said + "\n", 0
            said, self.column = said + each, self.column + cell_len(each)
        return said


def sanitize_text(text: str) -> str:
    """Printable characters, line breaks, blanks for tabs."""
    spelled = text.replace("\r\n", "\n").replace("\t", " " * TAB)
    return "".join(each if each == "\n" or each.isprintable() else "" for each in spelled)
