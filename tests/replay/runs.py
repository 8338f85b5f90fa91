"""Runs by arithmetic, for tests of what is drawn: a context that grows, breaks, is cleared and compacted."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from everturn.replay.page.session_comparison import SessionComparison
from everturn.replay.refetches import Refetch
from everturn.replay.runs import ReplayCost, ReplayRun, RetainedCount, SimulatedCall, Totals

START = datetime(2026, 11, 1, 9, 0, tzinfo=UTC)
# Dollars per million tokens, chosen so that sums are easy to see.
PRICES = {"plain": 3, "write_5m": Decimal("3.75"), "write_1h": 6, "read": Decimal("0.30"), "output": 15}


def call(number: int = 1, **changes: object) -> SimulatedCall:
    given = {
        "thread": "main", "number": number, "at": START + timedelta(seconds=40 * number), "source": "main",
        "read": 0, "write_5m": 0, "write_1h": 0, "plain": 0, "output": 300, "context": 0,
    }  # fmt: skip
    given |= changes
    given["context"] = given["context"] or sum(given[k] for k in ("read", "write_5m", "write_1h", "plain"))
    given.setdefault(
        "dollars", sum(given[kind] * price / Decimal(1_000_000) for kind, price in PRICES.items())
    )
    return SimulatedCall(**given)


def run(
    calls: Sequence[SimulatedCall], *, session: str = "s", policy: str = "recorded", **changes
) -> ReplayRun:
    main = [each for each in calls if each.source == "main"]
    kinds = {k: sum(getattr(c, k) * p / Decimal(1_000_000) for c in main) for k, p in PRICES.items()}
    extra = {
        s: sum((c.dollars for c in calls if c.source == s), Decimal(0))
        for s in ("compact", "refetch", "refresh")
    }
    spent = ReplayCost(
        **kinds, summaries=extra["compact"], refetches=extra["refetch"], refresh=extra["refresh"]
    )
    totals = Totals(
        calls=len(main),
        spent=spent,
        **{kind: sum(getattr(each, kind) for each in calls) for kind in PRICES},
        peak=max((each.context for each in calls), default=0),
        mean=sum(each.context for each in main) / max(1, len(main)),
        breaks=dict(Counter(each.broke for each in calls if each.broke)),
        compactions=sum(each.source == "compact" for each in calls),
        refreshes=sum(each.source == "refresh" for each in calls),
        refetches=sum(len(each.refetches) for each in calls),
        left={"paths": RetainedCount(37, 40)},
    )
    return ReplayRun(session, policy, tuple(calls), totals, **changes)


def growing(
    calls: int = 120, *, compact_at: int = 150_000, clears: bool = False, refetches: int = 0
) -> list[SimulatedCall]:
    """A session of so many calls, with a pause every forty and a sub-agent at the end."""
    return [*_main(calls, compact_at, clears, refetches), *_sub_agent(calls)]


def _main(calls: int, compact_at: int, clears: bool, refetches: int) -> Iterator[SimulatedCall]:
    held, at = 18_000, START
    cached = 0
    for number in range(1, calls + 1):
        pause = number % 40 == 0
        at += timedelta(minutes=48) if pause else timedelta(seconds=35 + number * 7 % 60)
        held += 600 + number * 37 % 2400
        broke, why, cleared = "", "", 0
        if pause:
            cached, broke = 0, "48 minutes passed, and the prefix lives for 5"
        if held > compact_at:
            yield call(number, at=at, source="compact", read=cached, write_5m=held - cached, output=2_400,
                       why=f"the context had {held:,} tokens, above the mark")  # fmt: skip
            held, cached, broke = 31_000, 18_000, "the view is another one after the compaction"
        if clears and number % 23 == 0:
            cleared, why = 9, "nine results were older than the last three"
            held -= 14_000
            cached, broke = min(cached, 20_000), "results in the middle were cleared"
        missing = ()
        if refetches and number % refetches == 0:
            missing = (Refetch("r-1", 1_850, "src/harbour/<tides>.py", "path"),)
            yield call(
                number,
                at=at,
                source="refetch",
                read=cached,
                write_5m=max(0, held - cached),
                output=90,
                refetches=missing,
            )
            cached, held = held, held + 1_850
        cached = min(cached, held)
        yield call(number, at=at, read=cached, write_5m=held - cached - 40, plain=40, output=200,
                   broke=broke, why=why, cleared=cleared)  # fmt: skip
        cached = held


def _sub_agent(calls: int) -> Iterator[SimulatedCall]:
    for number in range(1, 15):
        size, new = 9_000 + 2_100 * number, 2_100 if number > 1 else 11_100
        at = START + timedelta(seconds=45 * calls + 20 * number)
        yield call(number, thread="agent-7", at=at, read=size - new, write_5m=new)


def make_comparison(name: str = "harbour-desk", calls: int = 120, **changes: object) -> SessionComparison:
    every = {
        "none": run(growing(calls // 2, compact_at=10**9), policy="none", session=name,
                    ended_early=f"call {calls // 2 + 1} does not fit into 200,000 tokens"),
        "recorded": run(growing(calls, compact_at=165_000), session=name),
        "claude-code": run(growing(calls, compact_at=140_000, refetches=31), policy="claude-code",
                           session=name),
        "clear-keep-3": run(growing(calls, clears=True, refetches=9), policy="clear-keep-3", session=name),
        "frugal+1h": run(growing(calls, compact_at=60_000, refetches=40), policy="frugal+1h", session=name),
    }  # fmt: skip
    least = min(float(each.totals.dollars) for each in list(every.values())[1:])
    bounds = {"floor": Decimal(str(least * 0.55)), "clairvoyant": Decimal(str(least * 0.83))}
    return SessionComparison(
        name, tuple(every.values()), **({"model": "claude-sonnet-4-5"} | bounds | changes)
    )
