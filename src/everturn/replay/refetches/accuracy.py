"""Measures the definition of a use on recorded sessions, and how often it is wrong (RP-6).

    python -m everturn.replay.refetches.accuracy [FOLDER ...]

Every conversation is processed twice. The first pass clears all but the newest results, as simple agents do,
and counts the refetches. The second pass hides exactly what the recording says was hidden. The assistant
worked without it, so every refetch found in the second pass is a false positive.
"""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, get_args

import msgspec

from everturn.history.log import Log
from everturn.history.records import Record
from everturn.history.threads import Thread
from everturn.replay.refetches.index import SessionUses, index_session
from everturn.replay.refetches.strings import UseKind
from everturn.replay.refetches.visibility import Refetch, Visibility
from everturn.replay.sessions import ReplaySession, read_sessions

FOLDER: Final = Path("../shared/data/claude-code")
KEPT: Final = 5
KINDS: Final[tuple[UseKind, ...]] = get_args(UseKind)


class RefetchCounts(msgspec.Struct):
    """Counts over many sessions. `after` counts calls that the recorded agent made with something hidden."""

    sessions: int = 0
    calls: int = 0
    uses: dict[UseKind, int] = msgspec.field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    cleared: list[Refetch] = msgspec.field(default_factory=list[Refetch])
    after: int = 0
    false: list[Refetch] = msgspec.field(default_factory=list[Refetch])

    def add(self, session: ReplaySession) -> None:
        uses = index_session(session)
        self.sessions += 1
        for at, thread in enumerate(session.threads):
            self._add_uses(uses, at)
            self.cleared += refetches_when_cleared(thread, uses, at, keep=KEPT)
            after, false = false_refetches(thread, uses, at)
            self.after += after
            self.false += false

    def _add_uses(self, uses: SessionUses, at: int) -> None:
        thread = uses.threads[at]
        self.calls += len(thread.calls)
        for call in thread.calls:
            for kind, _ in thread.uses_of(call.number):
                self.uses[kind] += 1


def refetches_when_cleared(thread: Thread, uses: SessionUses, at: int, *, keep: int) -> list[Refetch]:
    """Refetches if all but the newest results are cleared before every call."""
    visible, numbers = Visibility(uses, at), uses.threads[at].numbers
    found: list[Refetch] = []
    results: list[str] = []
    asked = 0
    for record in thread.records:
        number = numbers.get(record.uuid, 0)
        if number > asked:
            asked = number
            visible.hide(results[:-keep])
            del results[:-keep]
            found += visible.refetch(number)
        visible.see(_without_edit(record))
        results += [block.call for block in record.blocks if block.is_result]
    return found


def false_refetches(thread: Thread, uses: SessionUses, at: int) -> tuple[int, list[Refetch]]:
    """Calls since the recording first hid something, and the refetches found there (all false)."""
    visible, numbers, log = Visibility(uses, at), uses.threads[at].numbers, Log()
    found: list[Refetch] = []
    asked = after = 0
    has_hidden = False
    for record in thread.records:
        number = numbers.get(record.uuid, 0)
        if number > asked:
            asked = number
            after += has_hidden
            found += visible.refetch(number)
        has_hidden = has_hidden or record.edit is not None
        if log.append(record) == "replaced":
            visible.show(log.view)
        else:
            visible.see(record)
    return after, found


def _without_edit(record: Record) -> Record:
    return msgspec.structs.replace(record, edit=None)


def report(tally: RefetchCounts) -> str:
    rows = [
        ("", *KINDS, "all"),
        ("---", *("---:" for _ in KINDS), "---:"),
        _row("uses per call", tally.uses, tally.calls),
        _row(
            f"refetches per 100 calls, newest {KEPT} results kept", _by_kind(tally.cleared), tally.calls / 100
        ),
        _row("false refetches per 100 calls", _by_kind(tally.false), tally.after / 100),
    ]
    drawn = "\n".join("| " + " | ".join(row) + " |" for row in rows)
    missed = sum(refetch.tokens for refetch in tally.cleared) / max(1, len(tally.cleared))
    counted = (
        f"{tally.sessions} sessions, {tally.calls:,} calls, {tally.after:,} of them with something hidden"
    )
    return f"{drawn}\n\n{counted}; a missing block has {missed:,.0f} tokens on average."


def _by_kind(refetches: Sequence[Refetch]) -> dict[UseKind, int]:
    return {kind: sum(refetch.kind == kind for refetch in refetches) for kind in KINDS}


def _row(name: str, counts: dict[UseKind, int], of: float) -> tuple[str, ...]:
    shares = [count / of if of else 0.0 for count in (*counts.values(), sum(counts.values()))]
    return (name, *(f"{share:.2f}" for share in shares))


def tally(paths: Iterable[Path]) -> RefetchCounts:
    found = RefetchCounts()
    for session in read_sessions(paths):
        if isinstance(session, ReplaySession):
            found.add(session)
    return found


def main(arguments: Sequence[str]) -> int:
    found = tally(map(Path, arguments) if arguments else (FOLDER,))
    if not found.calls:
        print("No recorded calls found. Name a file or folder with recorded sessions.")
        return 1
    print(report(found))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
