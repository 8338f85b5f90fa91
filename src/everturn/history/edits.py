"""Edits: what was decided about history, appended to it as facts (TR-3, TR-4).

Nothing in the log is ever changed or removed. A result that the model should no longer see, a
compaction, an undo and a pin are each a small value with its reason; the view is computed from the
records and these values together (`history/log.py`).
"""

from typing import Literal

import msgspec

Trigger = Literal["auto", "manual"]


class Cleared(msgspec.Struct, frozen=True, tag=True):
    """These results are shown to the model as a placeholder from here on."""

    calls: tuple[str, ...]
    why: str = ""
    tokens_before: int = 0
    tokens_saved: int = 0


class Segment(msgspec.Struct, frozen=True):
    """Records kept through a partial compaction: head to tail, shown after the anchor (TR-9)."""

    head: str
    anchor: str
    tail: str


class Compacted(msgspec.Struct, frozen=True, tag=True):
    """Everything before this record is replaced by the summary that follows it."""

    trigger: Trigger = "auto"
    tokens_before: int = 0
    messages_summarized: int = 0
    user_context: str = ""
    logical_parent: str = ""
    discovered_tools: tuple[str, ...] = ()
    kept: Segment | None = None


class Undone(msgspec.Struct, frozen=True, tag=True):
    """The compaction of that boundary no longer holds; what it replaced is visible again (CP-30)."""

    boundary: str
    why: str = ""


class Pinned(msgspec.Struct, frozen=True, tag=True):
    """Words that every later summary must carry verbatim (CP-32)."""

    text: str
    source: str = ""


Edit = Cleared | Compacted | Undone | Pinned
