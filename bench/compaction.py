"""What a compaction costs us beside the model: plan, prompt, records; in milliseconds and in plain decodes.

plan      what is summarized, kept, pinned and restored, and what filled the view
prompt    the request for the summary by the fork way, without its bytes
whole     all of it, with the check of the answer and the records that follow from it
score     the retention score of the summary, which reads everything that was said once more. It is not part
          of the whole: it is computed when somebody reads it, in the receipt or in the event

At 1M tokens the whole costs less than two plain msgspec decodes of the records that it is about: a few walks
through the view. Its sizes are known, for whoever follows the view has followed them. The policy `economic`
also reads every result, to keep exchanges word for word and to name what files define: less than four and a
half. The score costs less than five.
"""

import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from typing import Any

import msgspec
from _timing import best

from everturn.decide.compact.flow import preview_compaction, run_compaction
from everturn.decide.compact.strategies import STRATEGIES
from everturn.decide.compact.summary_calls import SummaryCalls
from everturn.decide.compact.values import Compaction, CompactionPlan, CompactionRequest
from everturn.decide.effects import AskModel, FileRead, HookOutcome, ModelAnswer, ReadFiles
from everturn.decide.policy import get_policy
from everturn.decide.retention import measure_retention
from everturn.engine import Conversation, ConversationSettings
from everturn.history.blocks import text_block
from everturn.history.records import Record, Usage
from everturn.history.threads import split_threads
from everturn.measure.capabilities import ANTHROPIC
from everturn.measure.model_table import find_model
from everturn.replay.demo_session import coding_preamble
from everturn.replay.synthetic import SessionShape, generate_session
from everturn.twin.costs import TwinCosts
from everturn.view.key_parameters import KeyParameters, choose_ttl
from everturn.wire.claude_code_reader import parse_session_file

SIZES = (150_000, 1_000_000)
JUDGED = 1_000_000
# By policy.
DECODES = {"claude-code": 2.0, "economic": 4.5}
SCORE_DECODES = 5
# Without the copies of results that only a terminal shows: they would flatter the ratio.
SHAPE = SessionShape(boundaries=0, sidechains=0, images=0, display_copies="short")
NOW = datetime(2026, 11, 1, tzinfo=UTC)
BY_HAND = CompactionRequest(trigger="manual")
SUMMARY = (
    "<summary>\n1. Primary request and intent: "
    + "The parser is mended, its tests pass. " * 200
    + "</summary>"
)
FILE = "def parse(token):\n    return token\n" * 300


def records_of(tokens: int) -> list[Record]:
    data = b"\n".join(generate_session(seed=7, tokens=tokens, shape=SHAPE))
    return list(split_threads(parse_session_file(data).records).main.records)


def conversation(records: list[Record], *, window: int = 0, policy: str = "economic") -> Conversation:
    """On the model's own window, unless a larger one is given: then no turn compacts by itself."""
    model, options = find_model("claude-opus-5"), get_policy(policy).options
    assert model is not None
    compact = msgspec.structs.replace(options.compact, strategies=("fork",))
    kept = msgspec.structs.replace(options, compact=compact)
    model = replace(model, window=window) if window else model
    return Conversation(
        ConversationSettings(
            model=model,
            capabilities=ANTHROPIC,
            options=kept,
            costs=TwinCosts(model),
            preamble=coding_preamble(),
            parameters=KeyParameters(choose_ttl("main", "conversation", kept.cache.ttl, ANTHROPIC)),
            fields={"max_tokens": 8_000},
            transcript="session.jsonl",
        ),
        records,
    )


def answered(effect: Any) -> Any:
    """A world that takes no time."""
    match effect:
        case AskModel():
            return ModelAnswer((text_block(SUMMARY),), "end_turn", Usage(10, 0, 10, 10))
        case ReadFiles(paths=paths):
            return tuple(FileRead(path, FILE) for path in paths)
        case _:
            return HookOutcome()


def driven(flow: Any) -> Any:
    answer: Any = None
    while True:
        try:
            answer = answered(flow.send(answer))
        except StopIteration as done:
            return done.value


def parts(held: Conversation) -> dict[str, Callable[[], Any]]:
    ids = count()
    ground = held._compactor.context(held.setting, NOW)  # pyright: ignore[reportPrivateUsage]
    assert ground is not None
    plan = preview_compaction(BY_HAND, ground, NOW)
    assert isinstance(plan, CompactionPlan)

    def whole() -> Any:
        return driven(run_compaction(BY_HAND, ground, now=NOW, new_id=lambda: str(next(ids))))

    assert isinstance(whole(), Compaction)
    return {
        "plan": lambda: preview_compaction(BY_HAND, ground, NOW),
        "prompt": lambda: next(STRATEGIES["fork"](plan, ground, SummaryCalls(ground))),
        "score": lambda: measure_retention(plan.summarized, SUMMARY),
        "whole": whole,
    }


def measured(tokens: int, policy: str) -> tuple[float, float]:
    """Plain decodes that one compaction costs, and those that reading its score costs."""
    records = records_of(tokens)
    lines = [record.raw for record in records]
    decode = msgspec.json.Decoder().decode
    plain = best(lambda: [decode(line) for line in lines])
    held = conversation(records, window=2 * tokens, policy=policy)
    times = {name: best(part) for name, part in parts(held).items()}
    told = ", ".join(f"{name} {1000 * time:.1f} ms" for name, time in times.items())
    print(
        f"{tokens // 1000:>5}K tokens, {len(records):,} records, {policy}: {told}; "
        f"one decode {1000 * plain:.1f} ms, so {times['whole'] / plain:.1f} decodes"
    )
    return times["whole"] / plain, times["score"] / plain


def main() -> int:
    ok = True
    for policy, most in DECODES.items():
        costs = {size: measured(size, policy) for size in SIZES}
        whole, score = costs[JUDGED]
        told = f"{whole:.1f} of {most} allowed, the score {score:.1f} of {SCORE_DECODES}"
        is_within = whole < most and score < SCORE_DECODES
        print(told if is_within else f"OUT OF BOUNDS: {told}")
        ok = ok and is_within
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
