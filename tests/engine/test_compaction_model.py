"""Whatever is done to a conversation, in any order, its view is what a plain list would give.

The model beside the log: a list of what is shown, and one of such lists for every view that was replaced.
After every step both are equal, also in a log that was read back from its lines, and every byte that is no
longer shown can still be found in the log.
"""

from datetime import UTC, datetime
from itertools import count
from typing import Any

import builders as b
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from message_rules import find_message_problems
from presets import compacting

from everturn.decide.compact.chain import plan_undo
from everturn.decide.compact.settings import CompactSettings
from everturn.decide.compact.values import Compaction, CompactionRequest
from everturn.decide.effects import AskModel, Emit, FileRead, HookOutcome, ModelFailure, ReadFiles
from everturn.engine import Conversation, ConversationSettings
from everturn.history.blocks import Block
from everturn.history.edits import Cleared, Edit, Trimmed, Undone
from everturn.history.records import Record, make_edit_record
from everturn.history.rounds import find_cut_points
from everturn.measure.capabilities import ANTHROPIC
from everturn.measure.model_table import find_model
from everturn.twin.costs import TwinCosts
from everturn.view.flatten import flatten
from everturn.view.key_parameters import KeyParameters, TtlChoice
from everturn.wire.claude_code_reader import parse_session_file
from everturn.wire.claude_code_writer import encode_record

NOW = datetime(2026, 11, 15, tzinfo=UTC)
MODEL = find_model("claude-opus-4-6")
assert MODEL is not None
SETTING = ConversationSettings(
    model=MODEL,
    capabilities=ANTHROPIC,
    options=compacting("none", "fork", "extract", compact=CompactSettings(failures=10_000)),
    costs=TwinCosts(MODEL),
    parameters=KeyParameters(TtlChoice("5m", "the test says so")),
)
TALK = "A sentence that the summarizer may leave out, for it is only there to take room. " * 60


def answered(effect: Any) -> Any:
    """A world where no model answers and every file is there."""
    match effect:
        case AskModel():
            return ModelFailure("api_error", "the line is dead")
        case ReadFiles(paths=paths):
            return tuple(FileRead(path, "as it is now") for path in paths)
        case Emit():
            return None
        case _:
            return HookOutcome()


def driven(flow: Any) -> Any:
    answer: Any = None
    while True:
        try:
            answer = answered(flow.send(answer))
        except StopIteration as done:
            return done.value


class Views(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.conversation = Conversation(SETTING)
        self.shown: list[str] = []
        self.past: list[tuple[str, list[str], set[str]]] = []
        self.written: dict[str, tuple[Block, ...]] = {}
        self.numbers = count(1)

    # ── what happens ─────────────────────────────────────────────────────────────────────────────

    def add(self, record: Record) -> None:
        self.conversation.add(record)
        self.written[record.uuid] = record.blocks

    def new_id(self) -> str:
        return f"e{next(self.numbers)}"

    def edit(self, edit: Edit) -> Record:
        last = self.conversation.log.records[-1]
        record = make_edit_record(edit, uuid=self.new_id(), after=last, at=NOW)
        self.add(record)
        return record

    @rule(width=st.integers(0, 2), long=st.booleans())
    def append(self, width: int, long: bool) -> None:
        """A question, calls and results, an answer: what a turn leaves behind."""
        name = next(self.numbers)
        records = [b.user(f"question {name} " + (TALK if long else ""), uuid=f"u{name}")]
        if width:
            used = [b.call(f"c{name}-{at}", "Read", file_path=f"src/f{name}.py") for at in range(width)]
            given = [b.answer(f"c{name}-{at}", f"line {at} of {name}\n" * 300) for at in range(width)]
            records += [b.assistant(*used, id=f"m{name}", uuid=f"a{name}"), b.user(given, uuid=f"r{name}")]
        records.append(b.assistant(f"answer {name}", id=f"n{name}", uuid=f"b{name}"))
        for record in records:
            self.add(record)
            self.shown.append(record.uuid)

    @precondition(lambda self: self.results())
    @rule(data=st.data())
    def clear(self, data: st.DataObject) -> None:
        calls = data.draw(st.lists(st.sampled_from(self.results()), min_size=1, max_size=2, unique=True))
        self.shown.append(self.edit(Cleared(tuple(calls), "made room")).uuid)

    @precondition(lambda self: self.shown)
    @rule(data=st.data(), form=st.sampled_from(["full", "full", "from", "up_to"]))
    def compact(self, data: st.DataObject, form: Any) -> None:
        at = "" if form == "full" else data.draw(st.sampled_from(self.shown))
        asked = CompactionRequest(trigger="manual", form=form, at=at)
        outcome = driven(self.conversation.compact(asked, NOW, self.new_id))
        if not isinstance(outcome, Compaction):
            return
        assert outcome.plan is not None
        self.written |= {record.uuid: record.blocks for record in outcome.records}
        boundary, summary, *restored = (record.uuid for record in outcome.records)
        kept = [record.uuid for record in outcome.plan.kept]
        assert [uuid for uuid in self.shown if uuid in kept] == kept
        self.past.append((boundary, self.shown, {boundary, summary, *kept, *restored}))
        middle = [*kept, summary] if form == "from" else [summary, *kept]
        self.shown = [boundary, *middle, *restored]

    @precondition(lambda self: len(self.shown) > 2)
    @rule(data=st.data())
    def trim(self, data: st.DataObject) -> None:
        records = self.conversation.log.view.records
        cut = data.draw(st.sampled_from(list(find_cut_points(records))))
        before = records[cut].uuid if cut < len(records) else records[-1].uuid
        if before not in {records[at].uuid for at in find_cut_points(records) if at < len(records)}:
            return
        record = self.edit(Trimmed(before, "a sliding window"))
        kept = self.shown[self.shown.index(before) :]
        self.past.append((record.uuid, self.shown, {record.uuid, *kept}))
        self.shown = [record.uuid, *kept]

    @precondition(lambda self: self.past)
    @rule()
    def undo(self) -> None:
        """What was said since then stays, behind what was hidden."""
        found = plan_undo(self.conversation.log.view)
        boundary, before, hidden = self.past[-1]
        if not isinstance(found, Undone) or found.boundary != boundary:
            return
        self.past.pop()
        self.edit(found)
        self.shown = [*before, *(uuid for uuid in self.shown if uuid not in hidden)]

    @rule()
    def resume(self) -> None:
        """The process ends, and another one reads the lines."""
        self.conversation = Conversation(SETTING, self.reread())

    @rule(compacts=st.booleans())
    def fork(self, compacts: bool) -> None:
        """What a copy of the conversation does is not seen by this one."""
        before = list(self.conversation.log.view.records)
        other = Conversation(SETTING, self.conversation.log.records)
        other.add(b.user("What if?", uuid=self.new_id()))
        if compacts:
            driven(other.compact(CompactionRequest(trigger="manual"), NOW, self.new_id))
        assert list(self.conversation.log.view.records) == before

    # ── what holds ───────────────────────────────────────────────────────────────────────────────

    @invariant()
    def the_view_is_what_the_list_says(self) -> None:
        assert [record.uuid for record in self.conversation.log.view.records] == self.shown

    @invariant()
    def a_log_that_is_read_again_gives_the_same_view(self) -> None:
        again = Conversation(SETTING, self.reread())
        ours, theirs = self.conversation.log.view, again.log.view
        assert [(each.uuid, each.blocks) for each in theirs.records] == [
            (each.uuid, each.blocks) for each in ours.records
        ]
        assert (theirs.cleared, theirs.stale) == (ours.cleared, ours.stale)

    @invariant()
    def every_byte_is_still_in_the_log(self) -> None:
        kept = {record.uuid: record.blocks for record in self.conversation.log.records}
        assert {uuid: kept[uuid] for uuid in self.written} == self.written

    @invariant()
    def what_is_sent_is_valid(self) -> None:
        assert list(find_message_problems(flatten(self.conversation.log.view).messages)) == []

    def reread(self) -> tuple[Record, ...]:
        lines = b"\n".join(encode_record(record) for record in self.conversation.log.records)
        return tuple(parse_session_file(lines).records)

    def results(self) -> list[str]:
        records = self.conversation.log.view.records
        return [block.call for record in records for block in record.blocks if block.is_result]


TestViews = Views.TestCase
TestViews.settings = settings(max_examples=30, stateful_step_count=15, deadline=None)
