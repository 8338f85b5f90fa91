"""How likely something that was shown is needed again, counted in recorded sessions (EC-6).

    python -m everturn.replay.reuse_table [FOLDER]

Prints the rows of `decide/economy/reuse.py`: DEFAULT_REUSE. An exchange is looked at every few calls: its
age, and whether one of the next calls needs a string that only it, of the smallest set of blocks, can give
(`replay/refetches/cover.py`). A read of a file that was read or changed later shows an old state and is left
out: nobody restores it.
"""

import sys
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from everturn.decide.economy.reuse import HORIZON, ReuseTable, ToolExchange, exchange_kind, fit_reuse
from everturn.history.blocks import Block
from everturn.history.threads import Thread
from everturn.measure.tokens import estimate_block
from everturn.measure.tool_table import DEFAULT_TOOL_TABLE
from everturn.replay.playing.prepared import index_uses
from everturn.replay.refetches import SessionUses, ThreadUses
from everturn.replay.refetches.cover import cover_missing
from everturn.replay.refetches.outputs import shown_blocks
from everturn.replay.sessions import ReplaySession, read_sessions

FOLDER: Final = Path("../shared/data/claude-code")
# Every so many calls, from this one on.
_EVERY: Final = 5
_FIRST: Final = 10


class _Seen(NamedTuple):
    """One exchange: the first call that saw it, until when it is the newest of its file, and who needs it."""

    kind_of: ToolExchange
    first: int
    replaced: int | None
    needed_at: tuple[int, ...]


def iter_exchanges(paths: Iterable[Path]) -> Iterator[tuple[ToolExchange, bool]]:
    for session in read_sessions(paths):
        if isinstance(session, ReplaySession):
            yield from exchanges_of(session, index_uses(session))


def exchanges_of(session: ReplaySession, uses: SessionUses) -> Iterator[tuple[ToolExchange, bool]]:
    """The exchanges of a session at every few calls, and whether each was needed again."""
    for at, thread in enumerate(session.threads):
        calls = len(uses.thread(at).calls)
        seen = _exchanges(thread, uses.thread(at))
        for now in range(_FIRST, calls, _EVERY):
            for each in seen:
                if each.first <= now and (each.replaced is None or each.replaced > now):
                    is_needed = any(now <= call < now + HORIZON for call in each.needed_at)
                    yield each.kind_of._replace(age=now - each.first), is_needed


def _exchanges(thread: Thread, uses: ThreadUses) -> list[_Seen]:
    blocks = {
        f"{record.uuid}:{at}": block
        for record in thread.records
        if not record.compact_summary
        for at, block in enumerate(shown_blocks(record))
    }
    numbers = {held.name: at for at, held in enumerate(uses.blocks)}
    results = {held.answers: at for at, held in enumerate(uses.blocks) if held.answers}
    starts = [call.start for call in uses.calls]
    needed = _needed(uses)
    touched: dict[str, list[int]] = {}
    found: list[tuple[ToolExchange, int, str, tuple[int, ...]]] = []
    for name, block in blocks.items():
        given = numbers.get(name)
        kind = exchange_kind(DEFAULT_TOOL_TABLE.find(block.tool).does) if block.is_call else None
        if kind is None or given is None or (result := results.get(block.call)) is None:
            continue
        first, file = bisect_right(starts, result), uses.blocks[given].file
        tokens = estimate_block(block) + estimate_block(_at(blocks, uses, result))
        found.append(
            (ToolExchange(kind, tokens, 0), first, file, (*needed.get(given, ()), *needed.get(result, ())))
        )
        if file:
            touched.setdefault(file, []).append(first)
    return [
        _Seen(what, first, _replaced(first, touched.get(file, [])) if what.kind == "reads" else None, by)
        for what, first, file, by in found
    ]


def _at(blocks: dict[str, Block], uses: ThreadUses, number: int) -> Block:
    return blocks[uses.blocks[number].name]


def _replaced(first: int, touched: list[int]) -> int | None:
    return min((at for at in touched if at > first), default=None)


def _needed(uses: ThreadUses) -> dict[int, list[int]]:
    """For each block, the calls that would have to fetch it if they saw nothing; calls count from 0."""
    found: dict[int, list[int]] = {}
    for call in uses.calls:
        for each in cover_missing(uses, call, call.uses) if call.uses else ():
            found.setdefault(each.block, []).append(call.number - 1)
    return found


def format_table(table: ReuseTable) -> str:
    """As the source has it: a line for each kind and size."""
    lines: list[str] = []
    for row in table.rows:
        counts = ", ".join(f"({each.exchanges:_}, {each.needed})" for each in row.ages)
        lines.append(f'_row("{row.kind}", {row.size}, {counts}),')
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    print(format_table(fit_reuse(iter_exchanges([Path(arguments[0]) if arguments else FOLDER]))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
