"""Events and outcomes in words for whoever sits in front: one quiet line each, a compaction with its receipt.

What an event is: `decide/events.py`. Only what a person can use is told; the rest is for other listeners.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from rich.text import Text

from everturn.dashboard.compactions import LABEL, STRATEGY_LABELS
from everturn.dashboard.layout import Screen, counted, tokens
from everturn.dashboard.terminal import HEAD, QUIET
from everturn.decide.events import (
    BreakerOpened,
    CacheBroken,
    Compacting,
    CompactionDone,
    CompactionNotDone,
    Event,
    HookTrouble,
    MicroCompacted,
    NotesRejected,
    Repaired,
)
from everturn.history.repair import RepairKind

# Receipts say where the transcript is; here, that is known.
_SHORT_ENDING: Final = " in the transcript"
# As `view/fragments/receipt.py` begins its lines, and what they are called here.
_TITLES: Final = (
    ("Kept word for word or restored: ", "kept"),
    ("Can be read again: ", "recallable"),
    ("No longer here: ", "dropped"),
)


def format_event(event: Event, screen: Screen) -> list[Text]:
    """Nothing for what is told elsewhere: progress in the waiting line, compactions with their receipt."""
    return [Text(line, QUIET) for said in _words(event) for line in screen.wrapped(said)]


def _words(event: Event) -> Iterator[str]:
    match event:
        case MicroCompacted(results=results, tokens_saved=saved) if results:
            yield f"Cleared {counted(results, 'old result')} from the context: {tokens(saved)} tokens."
        case CompactionNotDone(reason="cancelled"):
            yield "The compaction was stopped; nothing has changed."
        case CompactionNotDone(detail=detail, reason=reason):
            yield f"The conversation was not compacted: {detail or reason.replace('_', ' ')}."
        case CacheBroken(why=why, tokens_lost=lost):
            yield f"The cache went cold: {why}. {tokens(lost)} tokens are paid for again."
        case BreakerOpened(count=count):
            often = f"it did not help {counted(count, 'time')} in a row"
            yield f"Automatic compaction is off for now: {often}. /clear begins anew."
        case Repaired(kinds=kinds):
            yield f"The end of the last run was mended: {', '.join(_repairs(kinds))}."
        case HookTrouble(hook=hook, details=details):
            yield f"A hook of {hook} had trouble: {'; '.join(details)}."
        case NotesRejected(why=why):
            yield f"The notes were not used: {why}."
        case _:
            return


def _repairs(kinds: Mapping[RepairKind, int]) -> Iterator[str]:
    for kind, count in kinds.items():
        if kind == "missing_result":
            yield f"{counted(count, 'open call')} got an answer"
        else:
            yield counted(count, kind.replace("_", " "))


def format_progress(event: Compacting) -> str:
    """For the waiting line."""
    written = f", {event.characters:,} characters" if event.characters else ""
    return f"compacting: {STRATEGY_LABELS[event.way]}{written}"


def format_compaction(done: CompactionDone, receipt: str, transcript: str, screen: Screen) -> list[Text]:
    """What a compaction did. `receipt` is what the model was told of it."""
    arrow = "->" if screen.ascii_only else "→"
    head = f"Compacted: {tokens(done.tokens_before)} {arrow} {tokens(done.tokens_after)} tokens"
    said = receipt.replace(f" in {transcript}", _SHORT_ENDING)
    rows = [("summary by", STRATEGY_LABELS[done.way]), *_receipt(said)]
    return [Text(screen.fitted(head), HEAD), *format_labelled(rows, screen)]


def _receipt(words: str) -> Iterator[tuple[str, str]]:
    for line in words.splitlines():
        for title, label in _TITLES:
            if line.removeprefix("- ").startswith(title):
                yield label, line.removeprefix("- ").removeprefix(title)


def format_labelled(rows: Sequence[tuple[str, str]], screen: Screen) -> list[Text]:
    """A name and what it says, wrapped beside it; below it where the screen is narrow."""
    beside = screen._replace(width=max(1, screen.width - LABEL - 2))
    lines: list[Text] = []
    for name, said in rows:
        for at, part in enumerate(beside.wrapped(said)):
            lines.append(Text.assemble("  ", (f"{name if at == 0 else '':<{LABEL}}", QUIET), part))
    return lines
