"""What is kept up to date record by record is what a walk through the whole view finds."""

import builders as b
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_logs import broken_logs, sound_logs

from everturn.decide.compact.plan import measured_now
from everturn.decide.tools import DEFAULT_TOOLS
from everturn.decide.view_tracker import TrackerInputs, ViewTracker
from everturn.history.blocks import fields_of, text_block
from everturn.history.edits import Cleared, Edit, ThinkingDropped, Trimmed, Undone
from everturn.history.log import Log
from everturn.history.records import Record
from everturn.measure.capabilities import ANTHROPIC
from everturn.measure.model_table import Model, model_or_default
from everturn.measure.outline import Preamble
from everturn.measure.tokens import TokenCounter
from everturn.session.estimated_costs import EstimatedCosts
from everturn.wire.anthropic import tool_block

COSTS = EstimatedCosts(model_or_default("claude-opus-4-5").model)


class Followed:
    """A log and what follows its view, as a conversation keeps them."""

    def __init__(self, written_with: Preamble | None = None) -> None:
        self.log = Log()
        self.counts = TokenCounter()
        self.written_with = written_with
        self.kept = TrackerInputs(DEFAULT_TOOLS, ANTHROPIC, COSTS, self.counts)
        self.follows = ViewTracker(self.log.view, self.kept, is_new=False)

    def add(self, record: Record) -> None:
        if self.log.append(record) == "replaced":
            is_undone = isinstance(record.edit, Undone)
            self.follows = ViewTracker.of_replaced(
                self.log.view,
                self.kept,
                before=self.follows.thinking,
                is_undone=is_undone,
                written_with=self.written_with,
            )
        elif not record.is_boundary:
            self.follows.add(record)

    def check(self) -> None:
        assert self.follows.measured() == measured_now(self.log.view, self.counts)


@st.composite
def stretches(draw: st.DrawFn) -> list[list[Record]]:
    """Logs with edits in them, every record under a name of its own."""
    some = draw(st.lists(st.one_of(broken_logs(6, edits=True), sound_logs(2)), min_size=1, max_size=3))
    return [
        [msgspec.structs.replace(record, uuid=f"{at}.{number}") for number, record in enumerate(stretch)]
        for at, stretch in enumerate(some)
    ]


def replacing(draw: st.DrawFn, log: Log, at: int) -> list[Record]:
    """A compaction, with or without a part that is kept; a trim; an undoing."""
    shown = [record.uuid for record in log.view.records] or ["none"]
    first = draw(st.integers(0, len(shown) - 1))
    boundary = log.view.boundary
    edits: list[Edit] = [Trimmed(shown[first]), Undone(boundary.uuid if boundary else "none")]
    segment = (shown[first], f"s{at}", shown[-1])
    kept = draw(st.sampled_from([None, segment]))
    return draw(
        st.sampled_from(
            [
                [b.boundary(f"b{at}", kept=kept), b.summary(uuid=f"s{at}", parent=f"b{at}")],
                [b.boundary(f"b{at}", kept=kept), b.user("no summary after all", uuid=f"u{at}")],
                *([b.edited(edit, f"e{at}")] for edit in edits),
            ]
        )
    )


@given(stretches(), st.data())
def test_what_was_followed_is_what_a_walk_through_the_view_measures(
    said: list[list[Record]], data: st.DataObject
):
    followed = Followed()
    for at, stretch in enumerate(said):
        for record in stretch:
            followed.add(record)
            followed.check()
        for record in replacing(data.draw, followed.log, at):
            followed.add(record)
        followed.check()


def test_what_was_cleared_before_a_view_is_measured_as_cleared_in_it():
    followed = Followed()
    read = b.call("c1", "Read", file_path="a.py")
    for record in (
        b.user("look", uuid="u1"),
        b.assistant(read, uuid="a1"),
        b.result("c1", "a line\n" * 400, uuid="r1"),
        b.edited(Cleared(("c1",)), "e1"),
        b.boundary("b1", kept=("a1", "s1", "r1")),
        b.summary(uuid="s1", parent="b1"),
        b.user("and now?", uuid="u2"),
    ):
        followed.add(record)
    assert followed.follows.measured().metrics.tool_results == {"Read": 8}
    followed.check()


class Binding(msgspec.Struct, frozen=True):
    """A model that binds thinking to what came before it."""

    model: Model = model_or_default("claude-opus-5-5").model
    preamble: Preamble = Preamble()


TODAY = Binding().preamble


def thinking_dropped(*records: Record, written_with: Preamble | None = TODAY) -> ThinkingDropped | None:
    followed = Followed(written_with)
    for record in records:
        followed.add(record)
    return followed.follows.thinking.drop(Binding(), Binding(), in_loop=False)


BEFORE = (
    b.user("look", uuid="u1"),
    b.assistant(b.think("one"), "a", id="m1", uuid="a1", model="claude-opus-5-5"),
    b.user("on", uuid="u2"),
)
UNDER = (
    b.user("more", uuid="u3"),
    b.assistant(b.think("two"), "b", id="m2", uuid="a2", model="claude-opus-5-5"),
)
WHY = "it is bound to what came before it: the messages before it have changed"


@pytest.mark.spec("PC-16", "CP-38")
def test_after_an_undo_only_what_was_thought_under_the_compaction_is_bound_to_another_prefix():
    undo = b.edited(Undone("b1"), "e1")
    compacted = (b.boundary("b1"), b.summary(uuid="s1", parent="b1"))
    assert thinking_dropped(*BEFORE, *compacted, undo) is None
    assert thinking_dropped(*BEFORE, *compacted, *UNDER, undo) == ThinkingDropped("a2", WHY)


@pytest.mark.spec("PC-16", "CP-38")
@pytest.mark.parametrize("written_with", [None, Preamble(system=(text_block("Be brief."),))])
def test_thinking_that_an_undo_brings_back_goes_unless_its_system_prompt_and_tools_are_those_of_today(
    written_with: Preamble | None,
):
    undone = (*BEFORE, b.boundary("b1"), b.summary(uuid="s1", parent="b1"), b.edited(Undone("b1"), "e1"))
    why = "it is bound to what came before it: an undo brought it back under another system prompt or tools"
    assert thinking_dropped(*undone, written_with=written_with) == ThinkingDropped("a1", why)
    answered = b.assistant("Well.", id="m3", uuid="a3", usage={"input_tokens": 9, "output_tokens": 1})
    # A reply says that the API has accepted it.
    assert thinking_dropped(*undone, answered, written_with=written_with) is None


def test_an_undo_without_thinking_says_nothing_of_the_thinking_that_follows():
    plain = (b.user("look", uuid="u1"), b.assistant("a", id="m1", uuid="a1", model="claude-opus-5-5"))
    followed = Followed(written_with=None)
    for record in (*plain, b.boundary("b1"), b.summary(uuid="s1", parent="b1"), b.edited(Undone("b1"), "e1")):
        followed.add(record)
    assert followed.follows.thinking.drop(Binding(), Binding(), in_loop=False) is None
    followed.add(b.assistant(b.think("two"), b.call("c1"), id="m2", uuid="a2", model="claude-opus-5-5"))
    assert followed.follows.thinking.drop(Binding(), Binding(), in_loop=True) is None


@pytest.mark.spec("PC-16", "CP-38")
def test_after_a_compaction_all_kept_thinking_is_bound_to_another_prefix_unless_it_stands_first():
    behind = (b.boundary("b1", kept=("a1", "s1", "u2")), b.summary(uuid="s1", parent="b1"))
    first = (b.boundary("b1", kept=("u1", "b1", "a1")), b.summary(uuid="s1", parent="b1"))
    assert thinking_dropped(*BEFORE, *behind) == ThinkingDropped("a1", WHY)
    assert thinking_dropped(*BEFORE, *first) is None


@pytest.mark.spec("PC-16", "CP-38")
def test_thinking_that_was_dropped_stays_so_when_the_edit_that_dropped_it_is_summarized():
    edit = b.edited(ThinkingDropped("a1", "other tools"), "e1")
    behind = (b.user("more", uuid="u3"), b.boundary("b1", kept=("u1", "b1", "u2")))
    summary = b.summary(uuid="s1", parent="b1")
    why = "it is bound to what came before it: the edit that dropped it was summarized"
    assert thinking_dropped(*BEFORE, edit, *behind, summary) == ThinkingDropped("a1", why)
    assert thinking_dropped(*BEFORE, *behind, summary) is None


def test_calls_fit_the_tools_and_sizes_the_costs_that_were_given_last():
    followed = Followed()
    for record in (b.user("look"), b.assistant(b.call("c1", "Read", limit="5")), b.result("c1")):
        followed.add(record)

    def sent(kind: str) -> object:
        schema = {"type": "object", "properties": {"limit": {"type": kind}}}
        preamble = Preamble(tools=(tool_block({"name": "Read", "input_schema": schema}),))
        (_, reply, _) = followed.follows.messages(preamble, COSTS)
        return fields_of(reply.blocks[0])["input"]["limit"]

    assert [sent("string"), sent("integer"), sent("integer"), sent("string")] == ["5", 5, 5, "5"]
    other = EstimatedCosts(model_or_default("claude-opus-5").model)
    assert followed.follows.build_outline(Preamble(), other).costs is other
