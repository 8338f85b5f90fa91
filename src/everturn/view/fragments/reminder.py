"""Attachments in words: wrapped, so that the model can tell context from what the user said (FLAT-2)."""

from typing import Any, cast

import msgspec

from everturn.history.blocks import Block, fields_of, text_block
from everturn.view.fragments.escaping import escaped

OPEN, CLOSE = "<system-reminder>", "</system-reminder>"


def reminder(text: str) -> Block:
    return text_block(f"{OPEN}\n{escaped(text)}\n{CLOSE}")


def attachment_words(payload: Block) -> str:
    """What an attachment says: its content where it has one, otherwise all of it as JSON.

    A hook that succeeded without a word has an empty content, and says nothing.
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
