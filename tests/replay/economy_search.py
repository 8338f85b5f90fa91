"""Random sessions and prices against the limit of EC-8: no session much dearer than doing nothing.

    PYTHONPATH=tests python -m replay.economy_search FIRST COUNT [--near]

Doing nothing is `none` while it stays below the threshold of automatic compaction. Above it nobody does
nothing: there it is the same settings without decisions by price, which compact at the threshold. `--near`
makes sessions that come near their window. A session beyond the limit is printed with its seed.
"""

import random
import sys
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal

import msgspec
from replay.scripts import session, steps, text

from everturn.measure.model_table import add_models
from everturn.replay.compare import PairedCosts, pair_costs
from everturn.replay.policies import ReplayPolicy, bill_summaries_as, parse_policy
from everturn.replay.runs import SimulatedCall
from everturn.replay.sessions import ReplaySession
from everturn.replay.simulate import simulate

OTHERS = ("claude-opus-4-5", "claude-opus-5-5", "claude-fable-5-2", "claude-haiku-5-5")
PAUSES = (280.0, 310.0, 600.0, 1_000.0, 3_500.0, 4_000.0, 8_000.0, 20_000.0)
GAPS = (5.0, 20.0, 150.0, 285.0, 295.0, 3_595.0)


class Trial(msgspec.Struct, frozen=True):
    made: ReplaySession
    ours: ReplayPolicy
    none: ReplayPolicy

    @property
    def by_thresholds(self) -> ReplayPolicy:
        economy = msgspec.structs.replace(self.ours.options.economy, enabled=False, holds=False)
        options = msgspec.structs.replace(self.ours.options, economy=economy)
        return msgspec.structs.replace(self.ours, options=options)


def make_trial(seed: int, *, is_near: bool) -> Trial:
    r = random.Random(seed)
    price, read = r.choice([0.05, 0.5, 3, 15, 75]), r.choice([0.01, 0.025, 0.1, 0.3, 0.9])
    entry = {
        "window": r.choice([100_000, 200_000, 1_000_000]),
        "max_output": 32_000,
        "input_price": price,
        "output_price": price * r.choice([1, 5, 20]),
        "cache_read_price": price * read,
        "cache_write_5m_price": price * r.choice([1, 1.25, 3]),
        "cache_write_1h_price": price * r.choice([1, 2, 4]),
    }
    model = r.choice(["trial-1", "trial-1", *OTHERS])
    if is_near:
        entry["window"], model = r.choice([100_000, 200_000]), "trial-1"
    add_models({"trial-1": entry}, origin="the search")
    calls = r.randint(8, 30) if is_near else r.randint(2, 30)
    sizes = [int(10 ** r.uniform(3 if is_near else 0, 4.5)) for _ in range(calls)]
    pauses = {r.randint(2, calls + 1): r.choice(PAUSES) for _ in range(r.randint(0, calls))}
    results = [text(size, f"word{at}") for at, size in enumerate(sizes)]
    made = session(steps(*results, gap=r.choice(GAPS), gaps=pauses))
    caution, hour = r.choice(["frugal", "balanced", "careful"]), r.choice(["", "", "+1h"])
    ours = parse_policy(f"economic+{caution}{hour}", model=model)
    if r.random() < 0.5:
        ours = bill_summaries_as(ours, "claude-haiku-4-5")
    return Trial(made, ours, parse_policy("none" + hour, model=model))


def is_beyond(costs: PairedCosts) -> bool:
    return costs.dollars > costs.of + max(Decimal("0.03") * costs.of, Decimal("0.05"))


def has_compacted(calls: Sequence[SimulatedCall]) -> bool:
    return any("compaction from" in call.why for call in calls)


def search(first: int, count: int, *, is_near: bool) -> Counter[str]:
    found: Counter[str] = Counter()
    for seed in range(first, first + count):
        trial = make_trial(seed, is_near=is_near)
        ours, none, others = (
            simulate(trial.made, each, None).calls for each in (trial.ours, trial.none, trial.by_thresholds)
        )
        is_reached = has_compacted(others)
        group = "threshold reached" if is_reached else "threshold not reached"
        costs = {"none": pair_costs(ours, none), "thresholds": pair_costs(ours, others)}
        found[group] += 1
        found[f"{group}, with resets"] += has_compacted(ours)
        for name, each in costs.items():
            found[f"{group}, beyond {name}"] += is_beyond(each)
        found[f"{group}, beyond both"] += all(map(is_beyond, costs.values()))
        if is_beyond(costs["thresholds" if is_reached else "none"]):
            numbers = [f"{name} {each.dollars:.3f} of {each.of:.3f}" for name, each in costs.items()]
            print(f"seed {seed}: {group}, {', '.join(numbers)}", flush=True)
    return found


def main() -> None:
    first, count, *more = sys.argv[1:]
    for name, number in sorted(search(int(first), int(count), is_near="--near" in more).items()):
        print(f"{number:6} {name}")


if __name__ == "__main__":
    main()
