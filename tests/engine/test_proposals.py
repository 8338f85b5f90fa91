"""A compaction that is proposed ahead of time, at a good moment (CP-24)."""

from datetime import timedelta

import builders as b
import pytest
from engine.alone import NOON, Alone, summary

from everturn.decide.compact.settings import CompactSettings
from everturn.decide.compact.triggers import Proposal
from everturn.decide.compact.values import Compaction, CompactionRequest, CompactionSkipped
from everturn.decide.events import ProposalAnswered
from everturn.history.records import Record

AUTO = CompactionRequest(trigger="auto")
COLD = timedelta(minutes=6)


def talk(reported: int, *last: Record) -> list[Record]:
    usage = {"input_tokens": reported - 10, "output_tokens": 10}
    stamp = NOON.isoformat()
    said = b.assistant("Done.", id="m", uuid="a", usage=usage, timestamp=stamp)
    return [b.user("Mend the parser. " * 2_000, uuid="u"), said, *last]


def scene(reported: int, *last: Record, **settings: float) -> Alone:
    compact = CompactSettings(strategies=("fork",), **settings)
    return Alone(talk(reported, *last), compact=compact, answers=[summary()])


CALLS = b.assistant(b.call("c1", "Bash", command="make"), id="m2", uuid="a2", timestamp=NOON.isoformat())
TODOS = [
    b.assistant(
        b.call("t1", "TodoWrite", todos=[{"content": "mend", "status": "pending"}]),
        id="m3",
        uuid="a3",
        timestamp=NOON.isoformat(),
    ),
    b.result("t1"),
    b.assistant("More to do.", id="m4", uuid="a4", timestamp=NOON.isoformat()),
]


@pytest.mark.spec("CP-24")
def test_it_is_proposed_when_the_task_is_finished_or_the_cache_is_cold():
    of = "120,000 of 167,000 tokens are used, and"
    finished = scene(120_000).conversation
    assert finished.propose_compaction(NOON) == Proposal(AUTO, f"{of} the task is finished")
    assert finished.propose_compaction(NOON + COLD) == Proposal(AUTO, f"{of} the cache is cold")
    for last in ([CALLS], TODOS):
        busy = scene(120_000, *last).conversation
        assert busy.propose_compaction(NOON) is None
        assert busy.propose_compaction(NOON + COLD) is not None


@pytest.mark.spec("CP-24")
def test_nothing_is_proposed_below_the_lower_threshold_at_the_automatic_one_or_without_compaction():
    assert scene(116_899).conversation.propose_compaction(NOON) is None
    assert scene(116_899, cold_share=0.5).conversation.propose_compaction(NOON) is not None
    assert scene(167_000).conversation.propose_compaction(NOON) is None
    assert Alone(talk(120_000)).conversation.propose_compaction(NOON) is None


@pytest.mark.spec("CP-24")
@pytest.mark.parametrize(("response", "again_at"), [("defer", 125_000), ("decline", 167_000)])
def test_a_proposal_that_is_put_off_comes_again_later_or_not_at_all(response, again_at):
    made = scene(120_000, defer_tokens=5_000)
    conversation = made.conversation
    proposal = conversation.propose_compaction(NOON)
    assert proposal is not None
    outcome = made.run(conversation.answer_proposal(proposal, response, NOON, made.new_id))
    assert outcome == CompactionSkipped(
        "deferred by the user" if response == "defer" else "declined by the user"
    )
    (event,) = made.events
    assert isinstance(event, ProposalAnswered)
    assert (event.response, event.tokens, event.why) == (response, 120_000, proposal.why)
    assert made.asked == []
    for size in (121_000, 124_999, 125_000, 166_000):
        usage = {"input_tokens": size - 10, "output_tokens": 10}
        conversation.add(b.assistant("More.", id=f"m{size}", uuid=f"a{size}", usage=usage))
        assert (conversation.propose_compaction(NOON) is not None) == (size >= again_at)


@pytest.mark.spec("CP-24")
def test_a_proposal_that_is_accepted_is_carried_out():
    made = scene(120_000)
    proposal = made.conversation.propose_compaction(NOON)
    assert proposal is not None
    outcome = made.run(made.conversation.answer_proposal(proposal, "accept", NOON, made.new_id))
    assert isinstance(outcome, Compaction)
    assert made.conversation.propose_compaction(NOON) is None
