"""Edits: what was decided about history, appended to it as facts (TR-3, TR-4).

Nothing in the log is ever changed or removed. A result that the model should no longer see, a
compaction, an undo, a pin are each a small value with its reason; the view is computed from the
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


class Offloaded(msgspec.Struct, frozen=True, tag=True):
    """A result too large to show: its whole text is in a file, the model sees a preview (MC-17)."""

    call: str
    path: str
    preview: str
    characters: int
    why: str = ""


class ThinkingDropped(msgspec.Struct, frozen=True, tag=True):
    """Thinking recorded from that record on, up to here, is no longer sent (PC-16).

    An edit of what came before would make the API refuse it.
    """

    since: str
    why: str = ""


class CacheDeleted(msgspec.Struct, frozen=True, tag=True):
    """The provider is told here, and again in every later request, to forget these results (MC-10)."""

    calls: tuple[str, ...]
    why: str = ""


class CacheDeletionsEnded(msgspec.Struct, frozen=True, tag=True):
    """The cache that earlier deletions were made in is gone, and they with it (MC-12)."""

    why: str = ""


class ServerCleared(msgspec.Struct, frozen=True, tag=True):
    """The provider reports that it cleared something by itself for one request (MC-15). Our view is whole."""

    kind: str
    count: int = 0
    tokens: int = 0


class Trimmed(msgspec.Struct, frozen=True, tag=True):
    """Everything before that record is out of sight, and nothing stands in for it (sliding windows)."""

    before: str
    why: str = ""


Edit = (
    Cleared
    | Compacted
    | Undone
    | Pinned
    | Offloaded
    | ThinkingDropped
    | CacheDeleted
    | CacheDeletionsEnded
    | ServerCleared
    | Trimmed
)
