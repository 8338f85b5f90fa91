"""What is kept up to date record by record is what a walk through the whole view finds."""

import builders as b
import msgspec
from hypothesis import given
from hypothesis import strategies as st
from random_logs import broken_logs, sound_logs

from everturn.decide.compact.plan import measured_now
from everturn.decide.tools import DEFAULT_TOOLS
from everturn.decide.view_tracker import TrackerInputs, ViewTracker
from everturn.history.edits import Cleared, Edit, Trimmed, Undone
from everturn.history.log import Log
from everturn.history.records import Record
from everturn.measure.capabilities import ANTHROPIC
from everturn.measure.model_table import model_or_default
from everturn.measure.tokens import TokenCounter
from everturn.session.estimated_costs import EstimatedCosts

COSTS = EstimatedCosts(model_or_default("claude-opus-4-5").model)


class Followed:
    """A log and what follows its view, as a conversation keeps them."""

    def __init__(self) -> None:
        self.log = Log()
        self.counts = TokenCounter()
        self.kept = TrackerInputs(DEFAULT_TOOLS, ANTHROPIC, COSTS, self.counts)
        self.follows = ViewTracker(self.log.view, self.kept, is_new=False)

    def add(self, record: Record) -> None:
        if self.log.append(record) == "replaced":
            self.follows = ViewTracker.of_replaced(self.log.view, self.kept)
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
