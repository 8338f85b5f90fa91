"""The breakpoint in the messages of a caller that places its own: on the last block of every request.

The caller moves it with every request, so it is moved to the end of what is sent. A summary has it too: it
finds what the conversation's own requests have written a few blocks before.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

# Who asks for a summary needs its entry no longer than the API keeps it anyway.
SUMMARY_MARK: Final[Mapping[str, Any]] = {"type": "ephemeral"}


def mark_last_block(fields: dict[str, Any], mark: Mapping[str, Any]) -> None:
    """Place a breakpoint on the last block of a decoded body."""
    content = fields["messages"][-1]["content"]
    if isinstance(content, list) and content:
        content[-1]["cache_control"] = dict(mark)


def mark_end(body: bytes, mark: Mapping[str, Any]) -> bytes:
    fields: dict[str, Any] = msgspec.json.decode(body)
    mark_last_block(fields, mark)
    return msgspec.json.encode(fields)
