"""The value of JSON text that ends too early: what a client makes of a tool call that was cut off.

Members and elements that are complete are kept, the unfinished one is left out, and open objects and arrays
are closed. The SDKs do the same with the deltas of a stream.
"""

from typing import Any

import msgspec


def parse_partial_json(text: str) -> Any:
    """The complete part of the value that `text` begins; an empty object if nothing is complete."""
    cut, closers = _last_complete(text)
    return msgspec.json.decode((text[:cut] + closers).encode()) if cut else {}


def _last_complete(text: str) -> tuple[int, str]:
    """How much of the text is complete, and what closes the objects and arrays that are open there."""
    stack: list[str] = []
    best = (0, "")
    at = 0
    # Whether the next string of an object is a key, which is not complete without its value.
    expects_key = False
    while at < len(text):
        char = text[at]
        if char in "{[":
            stack.append("}" if char == "{" else "]")
            expects_key = char == "{"
            at += 1
            best = (at, _closers(stack))
        elif char in "}]":
            stack.pop()
            at += 1
            best = (at, _closers(stack))
        elif char in ",:":
            expects_key = char == "," and stack[-1] == "}"
            at += 1
        elif char.isspace():
            at += 1
        else:
            end = _scalar_end(text, at)
            if end is None:
                break
            at = end
            if not expects_key:
                best = (at, _closers(stack))
    return best


def _closers(stack: list[str]) -> str:
    return "".join(reversed(stack))


def _scalar_end(text: str, at: int) -> int | None:
    """Where a string, number or word ends; None if the text ends first."""
    if text[at] != '"':
        while at < len(text) and text[at] not in ",]} \n\t\r":
            at += 1
        # A number at the end of the text may have more digits.
        return at if at < len(text) else None
    at += 1
    while at < len(text):
        if text[at] == "\\":
            at += 2
        elif text[at] == '"':
            return at + 1
        else:
            at += 1
    return None
