"""Edits JSON as text: adds or removes a member or an item and keeps every other character.

People edit settings files. Parsing and serializing one would change indentation, numbers and escapes, so the
text is edited in place. New text follows the surrounding layout.
"""

import json
import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

_SPACE: Final = re.compile(r"[ \t\r\n]*")
_DECODER: Final = json.JSONDecoder()
_COMMENT: Final = re.compile(r"\s*(?://|/\*|#)")


class InvalidJson(ValueError):
    """The text is not valid JSON; the message says where and how to fix it."""


class JsonSpan(NamedTuple):
    """Position and value of an object member, or of an array item (key "")."""

    key: str
    start: int
    value_start: int
    end: int
    value: Any


class JsonLayout(NamedTuple):
    """The layout of a text. An empty `unit` means one line without indentation."""

    newline: str = "\n"
    unit: str = "  "

    def render(self, value: Any, base: str) -> str:
        """Serialize a value that starts on a line indented by `base`."""
        if not self.unit:
            return json.dumps(value, ensure_ascii=False)
        lines = json.dumps(value, ensure_ascii=False, indent=self.unit).split("\n")
        return (self.newline + base).join(lines)


def parse_json(text: str) -> Any:
    """Parse a text. Raises InvalidJson if Claude Code could not read it either."""
    try:
        return json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError as problem:
        raise InvalidJson(_told(text, problem)) from None
    except RecursionError:
        raise InvalidJson("it is nested too deeply") from None


def _no_constant(name: str) -> Any:
    raise InvalidJson(f"it contains {name}, which is not valid JSON; use a number or null instead")


def _told(text: str, problem: json.JSONDecodeError) -> str:
    where = f"line {problem.lineno}, column {problem.colno}"
    line_start = text.rfind("\n", 0, problem.pos) + 1
    if _COMMENT.match(text, problem.pos) or _COMMENT.match(text, line_start):
        return f"comments are not allowed in JSON, remove the one at {where}"
    if text[problem.pos : problem.pos + 1] in ("}", "]") or "trailing comma" in problem.msg:
        return f"a value is missing at {where}: remove the extra comma before it"
    return f"{problem.msg[0].lower()}{problem.msg[1:]} at {where}"


def detect_layout(text: str) -> JsonLayout:
    """The layout, taken from the first member of the object."""
    spans = find_members(text, _start(text))
    if not spans:
        return JsonLayout("\r\n" if "\r\n" in text else "\n")
    before = text[_start(text) + 1 : spans[0].start]
    if "\n" not in before:
        return JsonLayout(unit="")
    return JsonLayout("\r\n" if "\r\n" in before else "\n", before.rpartition("\n")[2] or "  ")


def find_members(text: str, at: int) -> list[JsonSpan]:
    """The members of the object that starts at `at`. The text must be valid."""
    found: list[JsonSpan] = []
    at = _skip(text, at + 1)
    while text[at] != "}":
        at = _skip(text, at + 1) if text[at] == "," else at
        key, end = _DECODER.raw_decode(text, at)
        value_start = _skip(text, _skip(text, end) + 1)
        value, value_end = _DECODER.raw_decode(text, value_start)
        found.append(JsonSpan(key, at, value_start, value_end, value))
        at = _skip(text, value_end)
    return found


def find_items(text: str, at: int) -> list[JsonSpan]:
    """The items of the array that starts at `at`."""
    found: list[JsonSpan] = []
    at = _skip(text, at + 1)
    while text[at] != "]":
        at = _skip(text, at + 1) if text[at] == "," else at
        value, end = _DECODER.raw_decode(text, at)
        found.append(JsonSpan("", at, at, end, value))
        at = _skip(text, end)
    return found


def find_member(text: str, *names: str) -> JsonSpan | None:
    """The member at this path; of duplicate keys, the last."""
    at, found = _start(text), None
    for name in names:
        if text[at] != "{":
            return None
        found = next((span for span in reversed(find_members(text, at)) if span.key == name), None)
        if found is None:
            return None
        at = found.value_start
    return found


def members_at(text: str, names: Sequence[str]) -> list[JsonSpan]:
    """The members of the object at this path."""
    return find_members(text, _place(text, names))


def items_at(text: str, names: Sequence[str]) -> list[JsonSpan]:
    """The items of the array at this path."""
    return find_items(text, _place(text, names))


def items_within(text: str, item: JsonSpan, name: str) -> list[JsonSpan]:
    """The items of an array that is a member of `item`; of duplicate keys, the last."""
    found = [span for span in find_members(text, item.value_start) if span.key == name]
    return find_items(text, found[-1].value_start)


def add_member(text: str, names: Sequence[str], value: Any) -> str:
    """Add a member to an object; the last name is its key."""
    layout = detect_layout(text)
    at = _place(text, names[:-1])
    return _with(text, at, find_members(text, at), f"{json.dumps(names[-1])}: ", value, layout)


def add_item(text: str, names: Sequence[str], value: Any) -> str:
    """Append an item to the array at this path."""
    at = _place(text, names)
    return _with(text, at, find_items(text, at), "", value, detect_layout(text))


def replace_value(text: str, span: JsonSpan, spelled: str) -> str:
    return text[: span.value_start] + spelled + text[span.end :]


def remove_span(text: str, spans: Sequence[JsonSpan], number: int) -> str:
    """Remove one span of a container. Removing the last one added restores the text exactly."""
    if len(spans) == 1:
        start, end = _skip_back(text, spans[0].start), _skip(text, spans[0].end)
    elif number == len(spans) - 1:
        start, end = spans[number - 1].end, spans[number].end
    else:
        start, end = spans[number].start, spans[number + 1].start
    return text[:start] + text[end:]


def _with(text: str, at: int, spans: Sequence[JsonSpan], key: str, value: Any, layout: JsonLayout) -> str:
    if spans:
        before = spans[-2].end if len(spans) > 1 else at
        gap = text[text.index(text[at] if before == at else ",", before) + 1 : spans[-1].start]
        base = gap.rpartition("\n")[2] if "\n" in gap else _indentation(text, at)
        return f"{text[: spans[-1].end]},{gap}{key}{layout.render(value, base)}{text[spans[-1].end :]}"
    outer = _indentation(text, at)
    end = _skip(text, at + 1)
    if not layout.unit:
        return f"{text[: at + 1]}{key}{layout.render(value, outer)}{text[end:]}"
    inner = outer + layout.unit
    body = f"{layout.newline}{inner}{key}{layout.render(value, inner)}{layout.newline}{outer}"
    return text[: at + 1] + body + text[end:]


def _place(text: str, names: Sequence[str]) -> int:
    if not names:
        return _start(text)
    found = find_member(text, *names)
    if found is None:
        raise KeyError(".".join(names))
    return found.value_start


def _start(text: str) -> int:
    return _skip(text, 0)


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _skip_back(text: str, at: int) -> int:
    while text[at - 1] in " \t\r\n":
        at -= 1
    return at


def _indentation(text: str, at: int) -> str:
    """The leading white space of the line at `at`."""
    start = text.rfind("\n", 0, at) + 1
    return text[start : min(at, _skip(text, start))].strip("\r\n")
