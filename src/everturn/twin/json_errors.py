"""The API's words for JSON that it cannot read, where they are known from public reports."""

import re
from typing import Final

_HIGH_SURROGATE: Final = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F][0-9a-fA-F]{2})")


def describe_lone_surrogate(body: bytes) -> str | None:
    r"""The API's words for JSON with half of a surrogate pair, such as "\ud83d"; None if there is none."""
    for found in _HIGH_SURROGATE.finditer(body):
        before = body[: found.start()]
        backslashes = len(before) - len(before.rstrip(b"\\"))
        if backslashes % 2 == 0:
            lines = before.decode("utf-8", "replace").split("\n")
            column = len(lines[-1]) + 1
            position = sum(map(len, lines)) + len(lines) - 1
            return f"no low surrogate in string: line {len(lines)} column {column} (char {position})"
    return None
