"""Attachments as text: wrapped, so that the model can tell context from the user's words (FLAT-2)."""

from typing import Any, cast

import msgspec

from everturn.history.blocks import Block, fields_of, text_block
from everturn.view.fragments.escaping import escaped_around_output

OPEN, CLOSE = "<system-reminder>", "</system-reminder>"


def reminder(text: str) -> Block:
    return text_block(f"{OPEN}\n{escaped_around_output(text)}\n{CLOSE}")


def attachment_words(payload: Block) -> str:
    """The text of an attachment: its content if it has one, otherwise all of it as JSON.

    A hook that succeeded without output has empty content, and nothing is shown.
    """
    try:
        content = fields_of(payload).get("content")
    except (msgspec.DecodeError, RecursionError):
        return payload.raw.decode()
    if content is None:
        return payload.raw.decode()
    return _plain(content)


def _plain(content: Any) -> str:
    if isinstance(content, str):
        return content.strip()
    if isinstance(content, list):
        parts = (_plain(part) for part in cast(list[Any], content))
        return "\n".join(part for part in parts if part)
    if isinstance(content, dict) and "text" in content:
        return _plain(cast(dict[str, Any], content)["text"])
    return "" if content is None else msgspec.json.encode(content).decode()
