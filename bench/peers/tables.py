"""Reports drawn: one Markdown table for each question, with ratios against everturn, and who is not in it."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from statistics import mean

import msgspec

from everturn.decide.options import DEFAULT_POLICY
from everturn.replay.compare import Comparison, pair_costs
from everturn.replay.compare import ComparisonRow as Sums
from everturn.replay.intervals import PairedCosts, draw_sessions, saving_interval
from peers.compacting import Survived
from peers.playing import Played
from peers.turn import OURS, Speed, growth
from peers.work import Report

BASE = f"everturn {DEFAULT_POLICY}"
_SHARES = {
    "user_instructions": "user's words", "paths": "paths", "identifiers": "names", "errors": "errors",
    "pending": "tasks",
}  # fmt: skip
_NOT_THEIR_DOING = ("cache expired", "the provider lost", "system prompt or tools changed or lost")


class Table(msgspec.Struct, frozen=True):
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        rule = ("---", *("--:" for _ in self.head[1:]))
        drawn = [f"| {' | '.join(cells)} |" for cells in (self.head, rule, *self.rows)]
        return [*drawn, "", *(f"- {note}" for note in self.notes)]


# ── one more turn ────────────────────────────────────────────────────────────────────────────────


def turn_table(reports: Sequence[Report]) -> Table:
    by_name: dict[str, list[Speed]] = defaultdict(list)
    for report in reports:
        for speed in report.speeds:
            # everturn is measured in every process; its row is that of its own.
            if speed.name != OURS or report.peer == OURS:
                by_name[speed.name].append(speed)
    rows = [_turn_row(name, speeds) for name, speeds in by_name.items()]
    sizes = [f"{_size(speed.size)} ms" for speed in next(iter(by_name.values()), [])]
    head = ("one more turn", *sizes, "slowest", "growth", "ratio")
    opened = ", ".join(f"{_size(each.size)} {each.opening * 1e3:.0f} ms" for each in by_name.get(OURS, []))
    notes = (
        [f"What everturn pays once, and peers do not: opening the conversation, {opened}."] if opened else []
    )
    return Table(head, tuple(rows), (*notes, *_absent(reports)))


def _turn_row(name: str, speeds: Sequence[Speed]) -> tuple[str, ...]:
    last = speeds[-1]
    times = (f"{speed.typical * 1e3:.2f}" for speed in speeds)
    ratio = last.typical / last.ours if last.ours else 1.0
    return (name, *times, f"{last.slowest * 1e3:.1f}", f"{growth(speeds[0], last):.2f}", f"{ratio:.1f}")


def _size(tokens: int) -> str:
    return f"{tokens // 1_000_000}M" if tokens >= 1_000_000 else f"{tokens // 1000}K"


# ── dollars ──────────────────────────────────────────────────────────────────────────────────────


def dollars_table(reports: Sequence[Report]) -> Table:
    played = [each for report in reports for each in report.played]
    by_session: dict[str, dict[str, Played]] = defaultdict(dict)
    for each in played:
        by_session[each.run.session][each.run.policy] = each
    comparison = Comparison()
    for runs in by_session.values():
        comparison.add(each.run for each in runs.values())
    head = (
        "way of keeping", "sessions", "dollars", "ratio", "95%", "summaries $", "refetches $", "hit rate",
        "rewrites", "compactions", "refetches/100", "mean context", "unfinished", "refused",
    )  # fmt: skip
    rows = (_dollars_row(row, by_session.values()) for row in comparison.compared().rows)
    sessions = f"{len(by_session)} sessions, {_most_calls(played):,} calls."
    return Table(head, tuple(rows), (sessions, *_refusals(played), *_absent(reports)))


def _dollars_row(row: Sums, sessions: Iterable[dict[str, Played]]) -> tuple[str, ...]:
    refused, pairs = 0, list[PairedCosts]()
    for runs in sessions:
        if row.policy in runs:
            refused += runs[row.policy].refused
            if BASE in runs:
                pairs.append(pair_costs(runs[row.policy].run.calls, runs[BASE].run.calls))
    rewrites = sum(count for why, count in row.breaks.items() if not why.startswith(_NOT_THEIR_DOING))
    return (
        row.policy,
        f"{row.sessions}",
        f"${row.dollars:.2f}",
        *_ratio(pairs),
        f"${row.spent.summaries:.2f}",
        f"${row.spent.refetches:.2f}",
        f"{row.hit_rate:.1%}",
        f"{rewrites:,}",
        f"{row.compactions:,}",
        f"{row.refetches_per_100:.1f}",
        f"{row.mean / 1000:.0f}K",
        f"{row.unfinished or '–'}",
        f"{refused or '–'}",
    )


def _ratio(pairs: Sequence[PairedCosts]) -> tuple[str, str]:
    """Dollars against everturn's on the same calls, and its 95 % interval over sessions."""
    spent, base = (sum((getattr(each, name) for each in pairs), Decimal(0)) for name in ("dollars", "of"))
    saved = saving_interval(pairs, draw_sessions(len(pairs)))
    shown = f"{1 - saved.high:.2f} to {1 - saved.low:.2f}" if saved is not None else "–"
    return f"{spent / base:.2f}" if base else "–", shown


def _most_calls(played: Sequence[Played]) -> int:
    calls: dict[str, int] = defaultdict(int)
    for each in played:
        calls[each.run.policy] += each.run.totals.calls
    return max(calls.values(), default=0)


def _refusals(played: Sequence[Played]) -> Iterator[str]:
    reasons: dict[str, dict[str, None]] = defaultdict(dict)
    for each in played:
        reasons[each.run.policy].update(dict.fromkeys(each.reasons))
    for name, found in reasons.items():
        if found:
            yield f"{name} was refused, for example: {next(iter(found))[:200]}"


# ── a compaction ─────────────────────────────────────────────────────────────────────────────────


def compaction_table(reports: Sequence[Report]) -> Table:
    by_name: dict[str, list[Survived]] = defaultdict(list)
    for report in reports:
        for each in report.survived:
            by_name[each.name].append(each)
    head = (
        "way of keeping", "tokens after", "of before", *_SHARES.values(), "score", "loose",
        "score per 1K tokens", "ratio", "own ms",
    )  # fmt: skip
    per_token = {
        name: mean(each.score / each.tokens * 1_000 for each in found) for name, found in by_name.items()
    }
    base = per_token.get(OURS, 0.0)
    rows = (_compaction_row(name, found, per_token[name], base) for name, found in by_name.items())
    most = max(map(len, by_name.values()), default=0)
    return Table(head, tuple(rows), (f"Means over {most} histories.", *_absent(reports)))


def _compaction_row(name: str, found: Sequence[Survived], per_token: float, base: float) -> tuple[str, ...]:
    shares = ([s for each in found if (s := each.shares[kind]) is not None] for kind in _SHARES)
    return (
        name,
        f"{mean(each.tokens for each in found):,.0f}",
        f"{mean(each.tokens / each.tokens_before for each in found):.0%}",
        *(f"{mean(known):.2f}" if known else "–" for known in shares),
        f"{mean(each.score for each in found):.2f}",
        f"{mean(each.loose for each in found):.2f}",
        f"{per_token:.3f}",
        f"{per_token / base:.2f}" if base else "–",
        f"{mean(each.seconds for each in found) * 1e3:.1f}",
    )


# ── a page ───────────────────────────────────────────────────────────────────────────────────────


def _absent(reports: Sequence[Report]) -> Iterator[str]:
    for report in reports:
        # A peer that was stopped has the sessions that it had finished.
        what = "Not finished" if report.played else "Not measured"
        yield from (f"{what}: {name}, {why}" for name, why in report.problems.items())


def about(reports: Sequence[Report], machine: str) -> list[str]:
    versions = ", ".join(f"{name} {at}" for report in reports for name, at in report.versions.items())
    return [f"Made by that command: {versions}; {machine}."]


def caching_table(reports: Sequence[Report]) -> Table:
    rows = [(name, caches) for report in reports for name, caches in report.caches.items()]
    return Table(("way of keeping", "cache markers"), tuple(rows))


def into(page: str, name: str, lines: Iterable[str]) -> str:
    """The page with these lines between the markers of that name."""
    start, end = f"<!-- peers: {name} -->", f"<!-- end of peers: {name} -->"
    before, found, rest = page.partition(start)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise SystemExit(f"The page has no place for {name!r}. Put {start} and {end} where it belongs.")
    drawn = "\n".join(lines).rstrip()
    return f"{before}{start}\n{drawn}\n{end}{after}"
