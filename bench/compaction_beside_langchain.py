"""A compaction's own work beside LangChain's SummarizationMiddleware: the same conversation, the same run.

From the decision to compact to what replaces the conversation, with the request for the summary built and its
answer, which is given at once, taken in. The two do not do the same: everturn shows the summarizer all of it,
plans what comes back, reads it and writes a receipt; LangChain shows it the last 4,000 tokens and keeps 20
messages. The goal is to cost no more all the same, at 1M tokens. Whoever reads the score of the summary has
all that was summarized read once more, to see how much of it the summary keeps: that is shown apart.
"""

import sys
from collections.abc import Callable
from itertools import count
from typing import Any

from _timing import clock
from compaction import BY_HAND, NOW, SUMMARY, conversation, driven, records_of
from langchain.agents.middleware import SummarizationMiddleware
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from peers.spelling import message_value
from peers.with_langchain import messages_of

from everturn.decide.compact.values import Compaction, CompactionPlan
from everturn.decide.retention import measure_retention
from everturn.history.log import Log
from everturn.history.records import Record
from everturn.view.flatten import flatten

SIZES = (50_000, 200_000, 1_000_000)
JUDGED = 1_000_000
RUNS = 7
# Beyond every size: the turn before looks whether a compaction is due, and none is.
ENDLESS = 10_000_000
# Below the smallest size, so that every call summarizes.
TRIGGER = ("tokens", 10_000)


def ours(records: list[Record]) -> Callable[[], Any]:
    held, ids = conversation(records, window=ENDLESS), count()
    # The turn before it: what a live session has done when the context turns out to be full.
    driven(held.turn(NOW, lambda: str(next(ids))))

    def run() -> Any:
        made = driven(held.compact(BY_HAND, NOW, lambda: str(next(ids))))
        assert isinstance(made, Compaction), made
        return made

    return run


def score(records: list[Record]) -> Callable[[], Any]:
    held = conversation(records, window=ENDLESS)
    plan = held.dry_run(BY_HAND, NOW)
    assert isinstance(plan, CompactionPlan), plan
    return lambda: measure_retention(plan.summarized, SUMMARY)


def theirs(records: list[Record]) -> Callable[[], Any]:
    said = [each for m in flatten(Log(records).view).messages for each in messages_of(message_value(m), None)]
    middleware = SummarizationMiddleware(FakeListChatModel(responses=[SUMMARY]), trigger=TRIGGER)

    def run() -> Any:
        update = middleware.before_model({"messages": said}, None)  # type: ignore[arg-type]
        assert update is not None
        return update

    return run


def fastest(prepare: Callable[[list[Record]], Callable[[], Any]], records: list[Record]) -> float:
    """Each run on a conversation of its own: a compaction changes it."""
    found: list[float] = []
    for _ in range(RUNS):
        run = prepare(records)
        started = clock()
        run()
        found.append(clock() - started)
    return min(found)


def main() -> int:
    ratio = 0.0
    for size in SIZES:
        records = records_of(size)
        mine, other, scored = (fastest(each, records) for each in (ours, theirs, score))
        ratio = mine / other
        told = f"everturn {1000 * mine:.1f} ms, LangChain {1000 * other:.1f} ms"
        told += f", fastest of {RUNS}; {ratio:.2f} of theirs; the score {1000 * scored:.1f} ms"
        print(f"{size // 1000:>5}K tokens: {told}")
    ok = ratio <= 1
    print("no more than theirs at 1M" if ok else f"OUT OF BOUNDS: {ratio:.2f} times theirs at {JUDGED:,}")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
