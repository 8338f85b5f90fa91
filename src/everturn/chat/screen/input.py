"""What a line of input means: words for the model, a command, or nothing.

A command is a slash and a name that stands alone or before a blank, so that "/etc/hosts is wrong" is a
sentence. What the commands do is in `commands.py`.
"""

import re
from typing import Final

import msgspec

_COMMAND: Final = re.compile(r"/([a-zA-Z][a-zA-Z-]*)(?:\s+(.*))?", re.DOTALL)
# What no API takes as text: halves of a character, and NUL.
_NO_TEXT: Final = re.compile("[\ud800-\udfff\x00]")


class PromptInput(msgspec.Struct, frozen=True):
    text: str


class SlashCommand(msgspec.Struct, frozen=True):
    name: str
    rest: str = ""


class EmptyInput(msgspec.Struct, frozen=True):
    """An empty line."""


ParsedInput = PromptInput | SlashCommand | EmptyInput


def parse_input(text: str) -> ParsedInput:
    words = _NO_TEXT.sub("�", text).strip()
    if not words:
        return EmptyInput()
    if found := _COMMAND.fullmatch(words):
        return SlashCommand(found[1].lower(), (found[2] or "").strip())
    return PromptInput(words)


def is_continued(line: str) -> bool:
    """Whether a line ends with a backslash that stands for itself: two of them are one backslash, and end."""
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def join_lines(lines: list[str]) -> str:
    """Lines of which all but the last go on."""
    return "\n".join([line[:-1] for line in lines[:-1]] + lines[-1:])
