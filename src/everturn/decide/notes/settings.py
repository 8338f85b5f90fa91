"""Every number of the session's notes (SM-2 to SM-7)."""

from datetime import timedelta

import msgspec


class NotesSettings(msgspec.Struct, frozen=True, kw_only=True):
    """When notes are taken, how long they may be, and what is kept beside them."""

    # Notes cost a reading of the context each time, and make a compaction free.
    enabled: bool = False
    # Below this a session fits into one look, and notes about it are not worth a call. Our choice.
    first: int = 10_000
    # How much must have come since the last time, in tokens and in tool calls. Our choice.
    growth: int = 5_000
    tool_calls: int = 3
    section: int = 2_000
    whole: int = 12_000
    # A compaction waits this long for notes that are being taken; after the second they are given up.
    wait: timedelta = timedelta(seconds=15)
    dead_after: timedelta = timedelta(seconds=60)
    # What stays verbatim behind the notes: at least so many tokens and messages with text, at most so many.
    keep_tokens: int = 10_000
    keep_messages: int = 5
    keep_at_most: int = 40_000
