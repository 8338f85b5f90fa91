"""Tracks one view record by record: sizes, what fills it, results, messages, thinking.

A view that is replaced (a compaction, an undo, a trim) gets a new `ViewTracker`; otherwise adding a record
costs only that record. `engine/conversation.py` uses all of this to prepare a turn.
"""

from datetime import datetime
from typing import NamedTuple

from everturn.decide.compact.values import Measured
from everturn.decide.micro.cache_edit_state import CacheEditState
from everturn.decide.result_tracker import ResultTracker
from everturn.decide.thinking import ThinkingTracker
from everturn.decide.tools import ToolKinds, build_tool_table
from everturn.history.blocks import Block
from everturn.history.edits import CacheDeletionsEnded, Compacted, KeptSegment
from everturn.history.log import View
from everturn.history.messages import Message
from everturn.history.records import Record, record_time, reported_usage
from everturn.measure.accounting import Accounts, accounts_of
from everturn.measure.calibration import Calibration
from everturn.measure.capabilities import Capabilities
from everturn.measure.context_size import measure_context
from everturn.measure.meter import ContextSize, Meter, make_meter
from everturn.measure.outline import Outline, Preamble, TokenCosts
from everturn.measure.tokens import TokenCounter
from everturn.view.flatten import Flattener
from everturn.view.tool_inputs import read_schemas
from everturn.view.tool_references import read_offered_names


class TrackerInputs(NamedTuple):
    """The values that a tracker needs."""

    tools: ToolKinds
    capabilities: Capabilities
    costs: TokenCosts
    counts: TokenCounter
    # The definitions of the offered tools: calls are fitted to their schemas (FLAT-5).
    offered: tuple[Block, ...] = ()


class ViewTracker:
    def __init__(self, view: View, kept: TrackerInputs, *, is_new: bool) -> None:
        able = kept.capabilities
        self.meter = Meter(kept.counts)
        self.accounts = Accounts(kept.counts, tools=build_tool_table(kept.tools))
        self.results = ResultTracker(kept.tools, cleared=view.cleared, offloaded=view.offloaded)
        self.flattener = Flattener(
            hidden=view.cleared,
            offloaded=view.offloaded,
            tools=read_schemas(kept.offered),
            offered=read_offered_names(kept.offered),
            references="all" if able.cache_edits else "none",
        )
        self._offered = kept.offered
        self.outline = Outline(kept.costs, lookback=able.lookback, runs_are_one=able.runs_are_one)
        self.thinking = ThinkingTracker(kept.counts)
        self.cached = CacheEditState()
        # How far the breakpoints of the last answered request reached; -1 before the first one.
        self.reached = -1
        self.last_reply: datetime | None = None
        # Whether the provider has not seen this view yet, but has seen an earlier one.
        self.is_new = is_new
        self._counts = kept.counts

    @classmethod
    def of_replaced(
        cls,
        view: View,
        kept: TrackerInputs,
        *,
        before: ThinkingTracker,
        is_undone: bool,
        written_with: Preamble | None = None,
    ) -> "ViewTracker":
        """A view that replaced another one: everything in it was recorded before. `before` is the thinking of
        the other one. `written_with` are system prompt and tools of the last request that had the view which
        an undo brings back, if they are known.
        """
        made = cls(view, kept, is_new=True)
        for record in view.records:
            made.add(record)
        made.meter = make_meter(view, kept.counts)
        made.accounts = accounts_of(view, kept.counts, build_tool_table(kept.tools))
        if (since := _first_on_another_prefix(view, is_undone=is_undone)) is not None:
            made.thinking.prefix_changed("the messages before it have changed", since)
        if is_undone:
            made.thinking.came_back(written_with)
        elif since is None and (dropped := made.thinking.find_dropped(before)):
            made.thinking.prefix_changed("the edit that dropped it was summarized", dropped)
        made.thinking.ask_replies()
        made.is_new = True
        return made

    def copy(self, view: View, kept: TrackerInputs) -> "ViewTracker":
        """Another tracker of the same view, to try edits on."""
        made = ViewTracker(view, kept, is_new=self.is_new)
        for record in view.records:
            made.add(record)
        made.meter = make_meter(view, kept.counts)
        made.accounts = accounts_of(view, kept.counts, build_tool_table(kept.tools))
        made.thinking, made.cached, made.reached = self.thinking.copy(), self.cached, self.reached
        made.last_reply, made.is_new = self.last_reply, self.is_new
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
        # What was answered was sent: a log that is read again has no other sign of that.
        self.is_new = self.is_new and reported_usage(record) is None

    def measured(self) -> Measured:
        return Measured(self.meter.estimate().tokens, self.accounts.metrics())

    def size(
        self,
        preamble: Preamble,
        costs: TokenCosts,
        *,
        overhead: int | None = None,
        calibration: Calibration | None = None,
    ) -> ContextSize:
        """`overhead` is what system prompt and tools take, if an earlier usage told."""
        self.outline.costs = costs
        self.outline.set_preamble(preamble)
        tokens = self.outline.preamble_tokens
        return measure_context(self.meter, overhead=overhead, preamble=tokens, calibration=calibration)

    def build_outline(self, preamble: Preamble, costs: TokenCosts) -> Outline:
        """The outline of what would be sent now; only what changed is measured again."""
        outline = self.outline
        outline.costs = costs
        outline.set_preamble(preamble)
        if preamble.tools != self._offered:
            self._offered = preamble.tools
            self.flattener.set_tools(read_schemas(preamble.tools), read_offered_names(preamble.tools))
        outline.deleted = self.flattener.deleted
        first = self.flattener.take_changes()
        outline.replace_from(first, self.flattener.since(first))
        return outline

    def messages(self, preamble: Preamble, costs: TokenCosts) -> tuple[Message, ...]:
        return tuple(self.build_outline(preamble, costs).messages)


def _first_on_another_prefix(view: View, *, is_undone: bool) -> str | None:
    """The record from which on a replaced view has another prefix than its replies were given
    with: "" for all of them, None for none.
    """
    if is_undone:
        # What was there is back; only what was said under the compaction had another prefix.
        return next((each.uuid for each in view.records if each.uuid in view.shrunk), None)
    match view.boundary:
        case Record(uuid=uuid, edit=Compacted(kept=KeptSegment(anchor=anchor))) if anchor == uuid:
            # What is kept stands at the start, as it did before.
            return None
        case _:
            return ""
