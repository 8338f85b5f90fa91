"""When notes are taken, and how long a compaction waits for them (SM-2, SM-3).

Times are seconds of a clock that only goes forward: a wall clock that is set back must not keep an
extraction alive for ever.
"""

import msgspec

from everturn.decide.compact.settings import CompactSettings
from everturn.decide.compact.triggers import is_internal
from everturn.decide.notes.document import NotesState
from everturn.decide.notes.settings import NotesSettings
from everturn.history.records import Record


class Extract(msgspec.Struct, frozen=True):
    why: str


class NotNow(msgspec.Struct, frozen=True):
    why: str


class Waiting(msgspec.Struct, frozen=True):
    """How many seconds to wait for notes that are being taken; 0 for not at all."""

    seconds: float
    why: str


def count_record(state: NotesState, record: Record) -> NotesState:
    """The state after one more record."""
    calls = sum(block.is_call for block in record.blocks)
    return msgspec.structs.replace(state, calls=state.calls + calls) if calls else state


def mark_extracted(state: NotesState, began: NotesState, *, covers: str, tokens: int) -> NotesState:
    """The state after notes were taken of everything up to that record, in a context of so many tokens.
    `began` is the state when they were begun: calls made since then count for the next time."""
    calls = state.calls - began.calls
    return msgspec.structs.replace(state, covers=covers, tokens=tokens, calls=calls)


def mark_compacted(state: NotesState, tokens: int) -> NotesState:
    """The context is smaller now; growth is measured from here."""
    return msgspec.structs.replace(state, tokens=min(state.tokens, tokens))


def should_extract(
    state: NotesState,
    *,
    source: str,
    tokens: int,
    last_turn_calls: int,
    settings: NotesSettings,
    compact: CompactSettings,
) -> Extract | NotNow:
    """After a reply: `tokens` is the context as it is now, `last_turn_calls` the calls of that reply."""
    if not settings.enabled:
        return NotNow("session notes are switched off")
    # Notes of these would be notes of note-taking.
    if is_internal(source, compact):
        return NotNow(f"no notes are taken of {source!r}")
    if not state.covers and tokens < settings.first:
        return NotNow(f"{tokens:,} tokens so far; first notes are taken at {settings.first:,}")
    grown = tokens - state.tokens
    if state.covers and grown < settings.growth:
        return NotNow(f"{grown:,} tokens since the last notes; {settings.growth:,} are needed")
    if state.calls >= settings.tool_calls:
        return Extract(f"{grown:,} tokens and {state.calls:,} tool calls since the last notes")
    if last_turn_calls == 0:
        return Extract(f"{grown:,} tokens since the last notes, and the last turn called no tool")
    return NotNow(f"{state.calls} tool calls since the last notes, in the middle of a turn")


def is_dead(started: float, now: float, settings: NotesSettings) -> bool:
    """An extraction that began this long ago will not come back."""
    return now - started >= settings.dead_after.total_seconds()


def should_wait(started: float | None, since: float, now: float, settings: NotesSettings) -> Waiting:
    """Whether a compaction waits for notes that are being taken. `since` is when it began to wait."""
    if started is None:
        return Waiting(0, "no notes are being taken")
    if is_dead(started, now, settings):
        return Waiting(0, f"the extraction began {now - started:.0f} s ago and is given up")
    left = settings.wait.total_seconds() - (now - since)
    if left <= 0:
        return Waiting(0, f"waited {now - since:.0f} s for the notes")
    until_dead = settings.dead_after.total_seconds() - (now - started)
    return Waiting(min(left, until_dead), "notes are being taken")
