"""Parses a line of input: a prompt for the model, a slash command, or nothing.

A command is a slash and a name, alone or followed by a space; "/etc/hosts is wrong" is therefore a prompt.
`commands.py` runs the commands.
"""

import re
from typing import Final

import msgspec

_COMMAND: Final = re.compile(r"/([a-zA-Z][a-zA-Z-]*)(?:\s+(.*))?", re.DOTALL)
# The API rejects lone surrogates and NUL.
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
    """Whether a line ends with an unescaped backslash (an odd number of them)."""
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def join_lines(lines: list[str]) -> str:
    """Join lines, all but the last ending with a backslash."""
    return "\n".join([line[:-1] for line in lines[:-1]] + lines[-1:])
