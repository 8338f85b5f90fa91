"""Wraps streamed text between words and removes control characters.

A word is held back until it is complete, so that it can move to the next line as a whole. Line breaks of the
text stay. Model output may contain terminal escape sequences: only printable characters pass.
"""

import re
from typing import Final

from rich.cells import cell_len

from everturn.terminal_text import printable

_PARTS: Final = re.compile(r"\n| +|[^ \n]+")


class StreamWrapper:
    """`width` 0 means no wrapping. `column` is the current cursor column."""

    def __init__(self, width: int = 0) -> None:
        self._width = width
        self._word = ""
        self._blanks = 0
        self.column = 0

    def feed(self, piece: str) -> str:
        """Take a piece of text and return what can be printed now."""
        said = [self._part(part) for part in _PARTS.findall(printable(piece, keeps_lines=True))]
        return "".join(said)

    def finish(self) -> str:
        """Return the rest, with a line break if the text does not end with one."""
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
        # Without wrapping, a word need not be complete.
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
            # The indentation is as wide as the screen: drop it.
            blanks = ""
        self.column += len(blanks)
        return blanks + self._filled(word)

    def _filled(self, word: str) -> str:
        """Break a word that is longer than a line."""
        if self.column + cell_len(word) <= self._width:
            self.column += cell_len(word)
            return word
        said = ""
        for each in word:
            if self.column + cell_len(each) > self._width:
                said, self.column = said + "\n", 0
            said, self.column = said + each, self.column + cell_len(each)
        return said
