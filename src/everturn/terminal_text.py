"""Text for a terminal: every word that we print passes `printable` or `visible`.

File names, keys of a configuration, messages of programs and answers of models may hold sequences that move
the cursor, change the title, write into the clipboard, or show other letters than those that are there.
"""

TAB = " " * 4


def printable(text: str, *, keeps_lines: bool = False) -> str:
    """The text without control characters, invisible formatting (such as bidi marks) and surrogates. Line
    breaks become spaces, or stay; a tab is four spaces where they stay."""
    if text.isprintable():
        return text
    if not keeps_lines:
        return "".join(map(_replaced, text))
    lines = text.replace("\r\n", "\n").replace("\t", TAB).split("\n")
    return "\n".join(line if line.isprintable() else "".join(map(_replaced, line)) for line in lines)


def _replaced(letter: str) -> str:
    return letter if letter.isprintable() else " " if letter.isspace() else "?"


def visible(text: str) -> str:
    """The text with every such character written as an escape, for somebody who decides about it."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each in "\n\t" else _escape(each) for each in text)


def _escape(letter: str) -> str:
    number = ord(letter)
    return (
        f"\\x{number:02x}"
        if number < 0x100
        else f"\\u{number:04x}"
        if number < 0x10000
        else f"\\U{number:08x}"
    )
