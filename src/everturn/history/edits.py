"""Edits: decisions about the history, appended to the log as records (TR-3, TR-4).

Nothing in the log is ever changed or removed. Hiding a result from the model, a compaction, an undo and a pin
are each a small value with its reason. The view is computed from the records and these values together
(`history/log.py`).
"""

from typing import Literal

import msgspec

Trigger = Literal["auto", "manual"]


class Cleared(msgspec.Struct, frozen=True, tag=True):
    """From here on, the model sees a placeholder instead of these results."""

    calls: tuple[str, ...]
    why: str = ""
    tokens_before: int = 0
    tokens_saved: int = 0


class KeptSegment(msgspec.Struct, frozen=True):
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
    kept: KeptSegment | None = None
    # What is kept, as the provider has counted it; 0 if that is not known.
    tokens_kept: int = 0


class Undone(msgspec.Struct, frozen=True, tag=True):
    """The compaction at that boundary no longer applies; what it replaced is visible again (CP-30)."""

    boundary: str
    why: str = ""


class Pinned(msgspec.Struct, frozen=True, tag=True):
    """Text that every later summary must contain verbatim (CP-32)."""

    text: str
    source: str = ""


class Offloaded(msgspec.Struct, frozen=True, tag=True):
    """A result too large to show: its full text is in a file and the model sees a preview (MC-17)."""

    call: str
    path: str
    preview: str
    characters: int
    why: str = ""


class ThinkingDropped(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    """Thinking recorded from `since` on is no longer sent, up to this record or up to (excluding) `until`.

    The remaining thinking stays valid only if nothing but thinking was removed before it (PC-16).
    """

    since: str
    why: str = ""
    until: str = ""


class ToldAsText(msgspec.Struct, frozen=True, tag=True):
    """From here on these tool calls and their results are told as text: as blocks of a tool loop, the API
    would refuse them (CP-38).
    """

    calls: tuple[str, ...]
    why: str = ""


class CacheDeleted(msgspec.Struct, frozen=True, tag=True):
    """The provider is told here, and again in every later request, to delete these results from its cache
    (MC-10).
    """

    calls: tuple[str, ...]
    why: str = ""


class CacheDeletionsEnded(msgspec.Struct, frozen=True, tag=True):
    """The cache that held the earlier deletions has expired, so they no longer apply (MC-12)."""

    why: str = ""


class ServerCleared(msgspec.Struct, frozen=True, tag=True):
    """The provider reports that it cleared something itself for one request (MC-15); our view stays."""

    kind: str
    count: int = 0
    tokens: int = 0


class Rewound(msgspec.Struct, frozen=True, tag=True):
    """The conversation goes on from the record that this one continues; what was said after it is a branch
    left behind (CP-36).
    """

    to: str
    why: str = ""


class Trimmed(msgspec.Struct, frozen=True, tag=True):
    """Everything before that record is no longer shown, without a replacement (sliding windows)."""

    before: str
    why: str = ""


Edit = (
    Cleared
    | Compacted
    | Undone
    | Pinned
    | Offloaded
    | ThinkingDropped
    | ToldAsText
    | CacheDeleted
    | CacheDeletionsEnded
    | ServerCleared
    | Rewound
    | Trimmed
)
