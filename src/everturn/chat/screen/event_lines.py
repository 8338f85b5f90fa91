"""Events as lines for the user: one dimmed line each; a compaction with its receipt.

`decide/events.py` defines the events. Only those that are useful to the user are shown.
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
    CacheHeld,
    Compacting,
    CompactionDone,
    CompactionNotDone,
    Event,
    HoldChecked,
    HookTrouble,
    KeyChangesRepeated,
    MicroCompacted,
    NotesRejected,
    PriceUnknown,
    Repaired,
    ToolsDeferred,
)
from everturn.history.repair import RepairKind

# Receipts name the path of the transcript, which the user knows.
_SHORT_ENDING: Final = " in the transcript"
# How `view/fragments/receipt.py` starts its lines, and the label shown here.
_TITLES: Final = (
    ("Kept word for word or restored: ", "kept"),
    ("Can be read again: ", "recallable"),
    ("No longer here: ", "dropped"),
)


def format_event(event: Event, screen: Screen) -> list[Text]:
    """No lines for what is shown elsewhere: progress (waiting line) and compactions (with their receipt)."""
    return [Text(line, QUIET) for said in _words(event) for line in screen.wrapped(said)]


def _words(event: Event) -> Iterator[str]:
    match event:
        case MicroCompacted(results=results, tokens_saved=saved) if results:
            yield f"Cleared {counted(results, 'old result')} from the context: {tokens(saved)} tokens."
        case CompactionNotDone(reason="cancelled"):
            yield "Compaction cancelled; nothing changed."
        case CompactionNotDone(detail=detail, reason=reason):
            yield f"Not compacted: {detail or reason.replace('_', ' ')}."
        case CacheBroken(why=why, tokens_lost=lost):
            yield f"Cache miss: {why}. {tokens(lost)} tokens are billed again."
        case KeyChangesRepeated(what=what, changed=changed, tokens_lost=lost):
            again = f"{counted(changed, 'call')} had to write {tokens(lost)} tokens again"
            yield f"The cache key keeps changing ({what}): {again}."
        case CacheHeld(why=why):
            yield f"Cache {why}." if why.startswith("held") else f"Cache not held: {why}."
        case HoldChecked(kept=False, why=why):
            yield f"Hold lost: {why}."
        case ToolsDeferred(why=why):
            yield f"Tools deferred: {why}."
        case PriceUnknown(why=why):
            yield f"{why[:1].upper()}{why[1:]}."
        case BreakerOpened(count=count):
            failed = f"it failed {counted(count, 'time')} in a row"
            yield f"Automatic compaction is paused: {failed}. /clear starts a new conversation."
        case Repaired(kinds=kinds):
            yield f"Repaired the end of the last run: {', '.join(_repairs(kinds))}."
        case HookTrouble(hook=hook, details=details):
            yield f"Problem in a {hook} hook: {'; '.join(details)}."
        case NotesRejected(why=why):
            yield f"Notes not used: {why}."
        case _:
            return


def _repairs(kinds: Mapping[RepairKind, int]) -> Iterator[str]:
    for kind, count in kinds.items():
        if kind == "missing_result":
            yield f"{counted(count, 'open call')} got a result"
        else:
            yield counted(count, kind.replace("_", " "))


def format_progress(event: Compacting) -> str:
    """Text of the waiting line during a compaction."""
    written = f", {event.characters:,} characters" if event.characters else ""
    return f"compacting: {STRATEGY_LABELS[event.way]}{written}"


def format_compaction(done: CompactionDone, receipt: str, transcript: str, screen: Screen) -> list[Text]:
    """What a compaction did. `receipt` is the text that the model got about it."""
    arrow = "->" if screen.ascii_only else "→"
    head = f"Compacted: {tokens(done.tokens_before)} {arrow} {tokens(done.tokens_after)} tokens"
    said = receipt.replace(f" in {transcript}", _SHORT_ENDING)
    rows = [("summary by", STRATEGY_LABELS[done.way]), *([("why", done.why)] if done.why else [])]
    rows += _receipt(said)
    return [Text(screen.fitted(head), HEAD), *format_labelled(rows, screen)]


def _receipt(words: str) -> Iterator[tuple[str, str]]:
    for line in words.splitlines():
        for title, label in _TITLES:
            if line.removeprefix("- ").startswith(title):
                yield label, line.removeprefix("- ").removeprefix(title)


def format_labelled(rows: Sequence[tuple[str, str]], screen: Screen) -> list[Text]:
    """Rows of a label and a text that is wrapped beside it."""
    beside = screen._replace(width=max(1, screen.width - LABEL - 2))
    lines: list[Text] = []
    for name, said in rows:
        for at, part in enumerate(beside.wrapped(said)):
            lines.append(Text.assemble("  ", (f"{name if at == 0 else '':<{LABEL}}", QUIET), part))
    return lines
