"""Tells a request that the API will refuse from a defect of ours.

A request is read for what is needed of it, without checks that cost time for each valid one. Where that
fails, this finds out whether the client has sent something else than the API documents.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from everturn.adapters.tracking.caller_request import MISTYPED

MALFORMED: Final = MISTYPED


class _Typed(msgspec.Struct):
    type: str | None = None


class _Block(_Typed):
    id: str | None = None
    name: str | None = None
    tool_use_id: str | None = None
    text: str | None = None
    cache_control: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.type == "text" and self.text is None:
            raise ValueError("a text without its text")


class _Message(msgspec.Struct):
    content: str | list[_Block] = ""


class _Tool(_Typed):
    name: str | None = None
    cache_control: dict[str, Any] | None = None


class _Thinking(_Typed):
    budget_tokens: int | float | None = None


class _Output(msgspec.Struct):
    effort: str | None = None
    format: dict[str, Any] | None = None


class _Management(msgspec.Struct):
    edits: list[_Typed] = []


class _Request(msgspec.Struct):
    """What is used of a request. Other fields may be anything."""

    messages: list[_Message] = []
    system: str | list[_Block] | None = None
    tools: list[_Tool] | None = None
    tool_choice: _Typed | None = None
    thinking: _Thinking | None = None
    output_config: _Output | None = None
    speed: str | None = None
    context_management: _Management | None = None


def is_malformed(fields: Mapping[str, Any]) -> bool:
    try:
        msgspec.convert(fields, _Request)
    except msgspec.ValidationError:
        return True
    return False
