"""Fits the economic policy to a person's own sessions (EC-9).

Half of the files are used to fit the tables of pauses and of reuse, the other half to compare policies with
these tables, so that the comparison does not know what it was fitted to. Which half a file belongs to depends
on its name alone.
"""

from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Final

import msgspec

from everturn.decide.economy.pauses import DEFAULT_PAUSES, PauseTable, fit_pauses
from everturn.decide.economy.reuse import DEFAULT_REUSE, ReuseTable, ToolExchange, fit_reuse
from everturn.decide.economy.settings import CAUTIONS, Caution
from everturn.replay.compare import ComparisonRow, ComparisonTable
from everturn.replay.pause_table import silences_of
from everturn.replay.playing.prepared import index_uses
from everturn.replay.policies import RECORDED, ReplayPolicy, bill_summaries_as, parse_policy
from everturn.replay.reuse_table import exchanges_of
from everturn.replay.sessions import ReplaySession, read_sessions

# Fewer silences or exchanges than this say less than the tables of recorded sessions. Our choices.
MIN_SILENCES: Final = 20
MIN_EXCHANGES: Final = 500
# A recommended policy has at most so many refetches per 100 calls more than this one (EC-7).
COMPARED_WITH: Final = "claude-code"
MAX_MORE_REFETCHES: Final = 1.0
_ECONOMIC: Final = "economic"

# Called with the number of files that are read, the number of all files, and the file.
Tell = Callable[[int, int, str], None]


class FittedTables(msgspec.Struct, frozen=True):
    """`silences` and `exchanges` are how many there were; a table of too few is the default one."""

    pauses: PauseTable
    reuse: ReuseTable
    silences: int
    exchanges: int

    @property
    def has_own_pauses(self) -> bool:
        return self.silences >= MIN_SILENCES

    @property
    def has_own_reuse(self) -> bool:
        return self.exchanges >= MIN_EXCHANGES


class Recommendation(msgspec.Struct, frozen=True):
    """The caution to use, or None where `claude-code` is no dearer; and why."""

    caution: Caution | None
    why: str


def split_files(files: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """Files to fit the tables to, and files to check them on. With one file, both are that file."""
    ordered = sorted(files, key=lambda file: blake2b(file.name.encode()).digest())
    return (ordered[::2], ordered[1::2]) if len(ordered) > 1 else (ordered, ordered)


def fit_tables(files: Sequence[Path], tell: Tell) -> FittedTables:
    silences: list[float] = []
    seen: list[tuple[ToolExchange, bool]] = []
    for number, file in enumerate(files, start=1):
        for session in read_sessions([file]):
            if isinstance(session, ReplaySession) and session.threads:
                silences += silences_of(session)
                seen += exchanges_of(session, index_uses(session))
        tell(number, len(files), str(file))
    # Only pauses that outlive a cache entry decide anything.
    long = [each for each in silences if each >= DEFAULT_PAUSES.rows[0].seconds]
    return FittedTables(
        fit_pauses(long) if len(long) >= MIN_SILENCES else DEFAULT_PAUSES,
        fit_reuse(seen) if len(seen) >= MIN_EXCHANGES else DEFAULT_REUSE,
        len(long),
        len(seen),
    )


def compared_policies(tables: FittedTables, summary_model: str) -> list[ReplayPolicy]:
    """What was recorded, `claude-code`, and `economic` with every caution and the fitted tables."""
    every = [parse_policy(name) for name in (RECORDED, COMPARED_WITH)]
    every += [_fitted(parse_policy(f"{_ECONOMIC}+{caution}"), tables) for caution in CAUTIONS]
    return [bill_summaries_as(each, summary_model) if summary_model else each for each in every]


def _fitted(policy: ReplayPolicy, tables: FittedTables) -> ReplayPolicy:
    economy = msgspec.structs.replace(
        policy.options.economy,
        pauses=tables.pauses.to_lines() if tables.has_own_pauses else (),
        reuse=tables.reuse.to_lines() if tables.has_own_reuse else (),
    )
    return msgspec.structs.replace(policy, options=msgspec.structs.replace(policy.options, economy=economy))


def recommend(compared: ComparisonTable) -> Recommendation:
    """The cheapest caution whose refetches stay near those of `claude-code`, if it is cheaper than that."""
    rows = {row.policy: row for row in compared.rows}
    other = rows[COMPARED_WITH]
    limit = other.refetches_per_100 + MAX_MORE_REFETCHES
    fitting: list[Caution] = [
        caution for caution in CAUTIONS if _row(rows, caution).refetches_per_100 <= limit
    ]
    bound = f"{limit:.1f} refetches per 100 calls ({COMPARED_WITH} and one more)"
    if not fitting:
        return Recommendation(None, f"every caution has more than {bound}")
    best: Caution = min(fitting, key=lambda caution: _row(rows, caution).dollars)
    row = _row(rows, best)
    if row.dollars >= other.dollars:
        return Recommendation(None, f"{COMPARED_WITH} costs ${other.dollars:.2f}, {best} ${row.dollars:.2f}")
    return Recommendation(best, f"the cheapest with at most {bound}")


def _row(rows: dict[str, ComparisonRow], caution: Caution) -> ComparisonRow:
    return rows[f"{_ECONOMIC}+{caution}"]


def recommended_row(compared: ComparisonTable, caution: Caution) -> ComparisonRow:
    return _row({row.policy: row for row in compared.rows}, caution)


def settings_lines(caution: Caution, tables: FittedTables, summary_model: str) -> list[str]:
    """The recommended settings, a line each, as config.toml has them."""
    # Compared with holds, so recommended with them.
    lines = ['policy = "economic"', f'economy.caution = "{caution}"', "economy.holds = true"]
    if tables.has_own_pauses:
        lines.append(f"economy.pauses = {_array(tables.pauses.to_lines())}")
    if tables.has_own_reuse:
        lines.append(f"economy.reuse = {_array(tables.reuse.to_lines())}")
    if summary_model:
        lines.append(f"compact.summary_model = {_array([summary_model])[1:-1]}")
        lines.append('compact.strategies = ["notes", "direct", "extractive"]')
    return lines


def _array(texts: Iterable[str]) -> str:
    # A JSON array of plain texts is a TOML array too.
    return msgspec.json.encode(list(texts)).decode()
