"""What follows the records of one view, one at a time: sizes, what fills it, results, messages, thinking.

A view that is replaced (a compaction, an undo, a trim) gets a new `Following`; else adding a record costs
that record. What a turn makes of all this is `engine.py`'s.
"""

from datetime import datetime
from typing import NamedTuple

from everturn.decide.compact.values import Measured
from everturn.decide.micro.cache_edit_state import CacheEditState
from everturn.decide.result_tracker import ResultTracker
from everturn.decide.thinking import ThinkingTracker
from everturn.decide.tools import ToolKinds
from everturn.history.edits import CacheDeletionsEnded
from everturn.history.log import View
from everturn.history.messages import Message
from everturn.history.records import Record, record_time, reported_usage
from everturn.measure.accounting import Accounts, accounts_of
from everturn.measure.capabilities import Capabilities
from everturn.measure.meter import ContextSize, Meter, meter_of
from everturn.measure.outline import Costs, Outline, Preamble
from everturn.measure.tokens import TokenCounter
from everturn.view.flatten import Flattener


class TrackerInputs(NamedTuple):
    """What a view is followed with."""

    tools: ToolKinds
    capabilities: Capabilities
    costs: Costs
    counts: TokenCounter


class ViewTracker:
    def __init__(self, view: View, kept: TrackerInputs, *, is_new: bool) -> None:
        able = kept.capabilities
        self.meter = Meter(kept.counts)
        self.accounts = Accounts(kept.counts)
        self.results = ResultTracker(kept.tools, cleared=view.cleared, offloaded=view.offloaded)
        self.flattener = Flattener(
            hidden=view.cleared, offloaded=view.offloaded, references="all" if able.cache_edits else "none"
        )
        self.outline = Outline(kept.costs, lookback=able.lookback, runs_are_one=able.runs_are_one)
        self.thinking = ThinkingTracker(kept.counts)
        self.cached = CacheEditState()
        # How far the markers of the last answered request reached; -1 before the first one.
        self.reached = -1
        self.last_reply: datetime | None = None
        # Whether the provider has not seen this view yet, though it has seen another one.
        self.is_new = is_new
        self._counts = kept.counts

    @classmethod
    def of_replaced(cls, view: View, kept: TrackerInputs) -> "ViewTracker":
        """A view that took the place of another one: everything in it was recorded before."""
        made = cls(view, kept, is_new=True)
        for record in view.records:
            made.add(record)
        made.meter = meter_of(view, kept.counts)
        made.accounts = accounts_of(view, kept.counts)
        made.thinking.prefix_changed("the messages before it are others now")
        made.thinking.ask_replies()
        made.is_new = True
        return made

    def add(self, record: Record) -> None:
        if isinstance(record.edit, CacheDeletionsEnded):
            self.thinking.prefix_changed("the deletions in it have ended")
        self.meter.add(record)
        self.accounts.add(record)
        self.results.add(record, self._counts)
        self.flattener.add(record)
        self.thinking.add(record)
        if record.kind == "assistant":
            self.last_reply = record_time(record) or self.last_reply
        # What was answered was sent: a log that is read again knows no other sign of that.
        self.is_new = self.is_new and reported_usage(record) is None

    def measured(self) -> Measured:
        return Measured(self.meter.estimate().tokens, self.accounts.metrics())

    def size(self, head: Preamble, costs: Costs) -> ContextSize:
        """What was reported knows of system prompt and tools; an estimate has to be told."""
        size = self.meter.size()
        if size.basis == "usage":
            return size
        self.outline.costs = costs
        self.outline.set_preamble(head)
        return self.meter.estimate(head=self.outline.head_tokens)

    def build_outline(self, head: Preamble, costs: Costs) -> Outline:
        """The outline of what would be sent now; only what changed is measured again."""
        outline = self.outline
        outline.costs = costs
        outline.set_preamble(head)
        outline.deleted = self.flattener.deleted
        first = self.flattener.take_changes()
        outline.replace_from(first, self.flattener.since(first))
        return outline

    def messages(self, head: Preamble, costs: Costs) -> tuple[Message, ...]:
        return tuple(self.build_outline(head, costs).messages)
