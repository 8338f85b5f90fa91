"""The end of a reply that the caller lets the model go on with: its request ends with an assistant message.

Often that is a reply from here that was cut off. The API takes no white space at its end, so the caller has
left it out. White space does not tell two replies apart, and the recorded one still has it.
"""

from collections.abc import Sequence
from typing import Any

from everturn.adapters.tracking.caller_request import CallerRequest
from everturn.history.blocks import block_from_fields, fields_of, text_of
from everturn.history.messages import Message


def end_as_asked(messages: Sequence[Message], request: CallerRequest) -> Sequence[Message]:
    """The messages without white space at their end, if the caller's list has none there."""
    last = messages[-1] if messages else None
    if last is None or last.role != "assistant" or not last.blocks or last.blocks[-1].kind != "text":
        return messages
    block = last.blocks[-1]
    text, asked = text_of(block), _last_text(request)
    if text == text.rstrip() or not asked or asked != asked.rstrip():
        return messages
    ended = block_from_fields({**fields_of(block), "text": text.rstrip()})
    return [*messages[:-1], Message(last.role, (*last.blocks[:-1], ended))]


def _last_text(request: CallerRequest) -> str:
    """The text that the caller's list ends with; "" if it ends with something else."""
    content: Any = request.messages[-1].get("content") if request.messages else None
    if not content or isinstance(content, str):
        return content or ""
    return str(content[-1].get("text") or "")
