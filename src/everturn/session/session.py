"""Sessions: a conversation of unlimited length, stored in a file and compacted when necessary (OV-1).

    with Session.open("work.jsonl", tools=[...], system="...") as session:
        print(session.send("Fix the login test.").text)

The transcript is append-only and holds the whole conversation. Other files are stored beside it:

    work.jsonl                the transcript, in the format of Claude Code
    work.jsonl.lock           the id of the process that writes it, while one does
    work.jsonl.state.json     state that a restart needs and the transcript does not hold
    work.jsonl.index.sqlite   the index that `recall` searches; can be deleted at any time
    work.jsonl.notes.md       the session's notes, if notes are enabled
    work.jsonl.files/         large tool results, and cache break reports

Call the methods from one thread at a time. `async_session.py` has the same methods with awaits.
"""

import os
from collections.abc import Callable, Generator, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import msgspec

from everturn.decide.branches import Branch, find_end_of_branch, list_branches
from everturn.decide.compact.chain import plan_undo
from everturn.decide.compact.pins import check_pin
from everturn.decide.compact.triggers import Proposal, ProposalResponse
from everturn.decide.compact.values import CompactionPlan, CompactionRequest, CompactionSkipped
from everturn.decide.economy.decisions import EconomicDecision
from everturn.decide.economy.head import HeadTool
from everturn.decide.economy.state import EconomyState
from everturn.decide.effects import HookEvent, HookOutcome
from everturn.decide.events import Event
from everturn.decide.options import Options
from everturn.decide.rewind import find_end_of_kept, plan_rewind
from everturn.engine import CompactionOutcome, Conversation
from everturn.errors import UsageError
from everturn.history.edits import Pinned, Rewound, Undone
from everturn.history.threads import Thread, split_threads
from everturn.measure.accounting import Metrics
from everturn.measure.calibration import Calibration
from everturn.measure.capabilities import Capabilities
from everturn.measure.meter import ContextSize
from everturn.measure.outline import TokenCosts
from everturn.measure.thresholds import ContextThresholds, ThresholdLevels
from everturn.measure.tokens import Estimator
from everturn.session.bill import Bill
from everturn.session.config.load import ConfigChoice
from everturn.session.hold_timers import THREADS, HoldTimer
from everturn.session.hooks.load import HooksArgument, divide_hooks
from everturn.session.interrupts import InterruptibleRuntime
from everturn.session.loop_hooks import PermissionCallback, deny_all
from everturn.session.memory_files.confined import ReadPermission, allow_all
from everturn.session.new_ids import new_uuid
from everturn.session.open_arguments import OpenArguments, open_runtime, read_options
from everturn.session.program_objects import check_count, check_text
from everturn.session.resume import SessionStart
from everturn.session.runtime import SessionRuntime
from everturn.session.store.protocol import Access
from everturn.session.tool_loop import Reply, ToolLoop, UserInput
from everturn.session.tools import Tool
from everturn.session.transcripts import open_own_transcript
from everturn.session.upstream import Send
from everturn.session.valid_text import replace_lone_surrogates
from everturn.view.system_prompt import SystemPromptSections

if TYPE_CHECKING:
    import anthropic

    from everturn.session.recall.search import Hit


class Rewind(msgspec.Struct, frozen=True):
    """`text` is the message of the user that was taken back; `left` is the newest message left behind, and
    `messages` how many there are. `pins` are those that are left behind with them."""

    text: str
    left: str
    messages: int
    pins: tuple[str, ...] = ()


class ContextUsage(msgspec.Struct, frozen=True, kw_only=True):
    """How full the context is, and what fills it."""

    model: str
    window: int
    size: ContextSize
    limits: ContextThresholds
    levels: ThresholdLevels
    metrics: Metrics
    # How token estimates are scaled to match the usage reported in this session.
    calibration: Calibration
    # The latest decisions that were made by price, the newest last (EC-1).
    decisions: tuple[EconomicDecision, ...] = ()
    # Dollars so far beside those of doing nothing; None unless decisions are made by price (EC-8).
    saved: EconomyState | None = None
    # What the definition of each tool costs, and how often it was called (EC-10).
    head: tuple[HeadTool, ...] = ()


class Session:
    """One conversation, its transcript and its connection to the model. Create it with `Session.open`."""

    def __init__(self, current: InterruptibleRuntime) -> None:
        self._current = current
        self._loop = ToolLoop(current)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        options: Options | None = None,
        *,
        tools: Sequence[Tool] = (),
        system: str | SystemPromptSections = "",
        client: "anthropic.Anthropic | None" = None,
        send: Send | None = None,
        hooks: HooksArgument = None,
        permit: PermissionCallback = deny_all,
        may_read: ReadPermission = allow_all,
        listen: Callable[[Event], None] = lambda _: None,
        roots: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
        cwd: str | os.PathLike[str] | None = None,
        capabilities: Capabilities | None = None,
        costs: TokenCosts | None = None,
        estimator: Estimator | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        new_id: Callable[[], str] = new_uuid,
        access: Access = "write",
        session_start: SessionStart = "auto",
        config: ConfigChoice = "auto",
        hold_timer: HoldTimer = THREADS,
        **overrides: Any,
    ) -> "Session":
        """Open the session in this file, or create it. With a store (`store.url`) `path` is its name there.

        Pass `options`, or any of its keys as a keyword (`model=`, `policy=`, `window=`, `notes=True`,
        `compact={"strategies": [...]}`). Other values come from the environment and the user's configuration
        file, unless `config` is None.

        `client` is an SDK client; without `client` and `send`, one is created from the options. `roots` are
        the folders from which files may be read again after a compaction; the default is `cwd`, which
        defaults to the folder that the session worked in, for a new one the current folder. `listen` is
        called with every event, sometimes from the thread that waits for the model. `estimator` counts
        tokens before the API reports them: a `LocalTokenizer`, or `ProviderCounts`; by default characters /
        4. `permit` decides about tool calls that a hook wants a person to confirm; by default they are
        refused. `may_read` is called for every memory file and decides whether it is read. With
        `access="read"` nothing is written and no message can be sent. `session_start` is the source passed
        to SessionStart hooks: "auto" means startup or resume; "none" runs none. `hold_timer` waits for holds.

        Tools and hooks may wait for another thread that calls `pin`. `clock`, `new_id`, `estimator`, `listen`
        and the sections of `system` must not: the session may hold the lock that `pin` waits for.
        """
        callbacks, overrides = divide_hooks(hooks, overrides)
        given = OpenArguments(
            path=path,
            tools=tools,
            system=system,
            client=client,
            send=send,
            hooks=callbacks,
            permit=permit,
            may_read=may_read,
            listen=listen,
            roots=roots,
            cwd=cwd,
            capabilities=capabilities,
            costs=costs,
            estimator=estimator,
            clock=clock,
            new_id=new_id,
            access=access,
            session_start=session_start,
            hold_timer=hold_timer,
        )
        return cls(open_runtime(given, read_options(options, overrides, config)))

    @property
    def _runtime(self) -> SessionRuntime:
        return self._current.runtime

    @property
    def path(self) -> str:
        return self._runtime.store.path

    @property
    def id(self) -> str:
        """The session's id from its records, or the name of its file."""
        return self._runtime.id

    @property
    def options(self) -> Options:
        return self._runtime.parts.options

    @property
    def remarks(self) -> list[str]:
        """Problems to show to the user: damage found in the file, and files that could not be written."""
        return self._runtime.remarks

    @property
    def damage(self) -> tuple[str, ...]:
        """What is wrong with the file, line by line: what its checksums, or its lines themselves, show."""
        return self._runtime.store.notes

    @property
    def conversation(self) -> Conversation:
        """The engine's conversation, for reading only; change it with the methods of the session."""
        return self._runtime.conversation

    # ── sending ──────────────────────────────────────────────────────────────────────────────────

    def send(self, message: UserInput = (), *, rounds: int | None = None) -> Reply:
        """Send a message and return the reply. With tools, it is the reply after the last tool call. Without
        a message, the model continues from where it is."""
        with self._current.changing():
            return self._loop.send(message, rounds)

    def stream(self, message: UserInput = (), *, rounds: int | None = None) -> Generator[str, None, Reply]:
        """As `send`, and yield the text as it arrives; without an SDK client, each reply in one piece. The
        generator returns the reply."""
        with self._current.changing():
            return (yield from self._loop.stream(message, rounds))

    # ── context and compaction ───────────────────────────────────────────────────────────────────

    def context(self) -> ContextUsage:
        self._current.reload_if_torn()
        self._runtime.collect_holds()
        setting, size = self.conversation.setting, self.conversation.size
        thresholds = self.conversation.thresholds
        return ContextUsage(
            model=setting.model.id,
            window=setting.model.window,
            size=size,
            limits=thresholds,
            levels=self.conversation.levels,
            metrics=self.conversation.metrics,
            calibration=self.conversation.calibration,
            decisions=self.conversation.economy.decisions,
            saved=self.conversation.economy.state if self.conversation.economy.is_on else None,
            head=self._runtime.head,
        )

    def compact(
        self, instructions: str = "", *, from_: str | None = None, up_to: str | None = None
    ) -> CompactionOutcome:
        """Compact now, at any size (CP-27): everything, or only what comes after or before a record. An
        interrupt while the summary is written cancels the compaction and changes nothing (CP-7)."""
        with self._current.changing():
            self._runtime.check_writable()
            self._runtime.handler.interrupt_ends_call = False
            try:
                return self._runtime.runner.compact(_make_compaction_request(instructions, from_, up_to))
            finally:
                self._runtime.handler.interrupt_ends_call = True
                self._runtime.write_state()

    def dry_run(
        self, instructions: str = "", *, from_: str | None = None, up_to: str | None = None
    ) -> CompactionPlan | CompactionSkipped:
        """What `compact` would do, without doing it."""
        self._current.reload_if_torn()
        return self.conversation.dry_run(
            _make_compaction_request(instructions, from_, up_to), self._runtime.parts.clock()
        )

    def propose_compaction(self) -> Proposal | None:
        """A compaction ahead of time, at a good moment: from `compact.cold_share` of the automatic threshold
        on, when the cache is cold or the task is finished. None where there is nothing to propose (CP-24)."""
        self._current.reload_if_torn()
        return self.conversation.propose_compaction(self._runtime.parts.clock())

    def answer_proposal(self, proposal: Proposal, response: ProposalResponse) -> CompactionOutcome:
        """What the user says to a proposal. "accept" compacts now; "defer" proposes it again after
        `compact.defer_tokens` more tokens; "decline" leaves it to the automatic threshold."""
        with self._current.changing():
            self._runtime.check_writable()
            try:
                return self._runtime.runner.answer_proposal(proposal, response)
            finally:
                self._runtime.write_state()

    def undo(self) -> Undone | CompactionSkipped:
        """Undo the last compaction by appending a record that says so."""
        with self._current.changing():
            edit = plan_undo(self.conversation.log.view)
            if isinstance(edit, Undone):
                self._runtime.append_edit(edit)
                self._runtime.write_state()
            return edit

    def rewind(self, uuid: str) -> "Rewind":
        """Go back to an earlier message and go on from there. A message of the user is itself taken back, to
        be said differently; a reply stays. What was said since is left behind in the transcript: rewinding to
        its last reply (`left`) returns to it as it was left, with its compactions and pins. Raises UsageError
        if there is no such message."""
        check_text("uuid", uuid, "the uuid of a message")
        with self._current.changing(), self._current.appending:
            return self._rewind(uuid)

    def _rewind(self, uuid: str) -> "Rewind":
        runtime = self._runtime
        recorded = self._read_main_thread()
        plan = plan_rewind((*recorded.abandoned, *recorded.records), uuid)
        if isinstance(plan, str):
            raise UsageError(plan)
        left = [each for each in self.conversation.log.records if each.kind in ("user", "assistant")]
        pins = [pin.text for pin in self.conversation.log.view.pins]
        last = find_end_of_kept(self.conversation.log, plan.last, recorded.abandoned)
        runtime.append_rewind(Rewound(uuid), last)
        self._current.reload()
        self.conversation.economy.record_rewind()
        self._runtime.write_state()
        kept = {each.uuid for each in self.conversation.log.records}
        behind = [each for each in left if each.uuid not in kept and not each.compact_summary]
        held = {pin.text for pin in self.conversation.log.view.pins}
        lost = tuple(text for text in pins if text not in held)
        return Rewind(plan.text, find_end_of_branch(behind), len(behind), lost)

    def branches(self) -> tuple[Branch, ...]:
        """The branches that rewinds have left behind, the last one at the end. `rewind` with the uuid of one
        returns to it."""
        found = self._read_main_thread()
        live = {record.uuid for record in found.records}
        return list_branches([record for record in found.abandoned if record.uuid not in live])

    def _read_main_thread(self) -> Thread:
        """All that the store holds, branches left behind included: memory has only what is continued."""
        return split_threads(open_own_transcript(self._runtime.store.write_copy()).records).main

    def pin(self, text: str) -> None:
        """Pin a text: every later compaction keeps it word for word. Raises UsageError if there is no space
        left for it."""
        check_text("text", text, "the text to pin")
        # A hook runs in its own thread while the speaker waits for it, and may pin.
        text = replace_lone_surrogates(text)
        with self._current.interruptible(), self._current.appending:
            conversation, estimate = self.conversation, self._runtime.conversation.estimate_text
            problem = check_pin(text, conversation.log.view.pins, self.options.compact, estimate)
            if problem:
                raise UsageError(problem)
            self._runtime.append_edit(Pinned(text, "pinned by the program"))

    # ── recall and cost ──────────────────────────────────────────────────────────────────────────

    def recall(self, query: str, limit: int = 8) -> "tuple[Hit, ...]":
        """Search the full history of the session, including what the model no longer sees."""
        from everturn.session.recall.search import recall

        check_text("query", query, "the words to search for, in one text")
        check_count("limit", limit, 1)
        self._current.reload_if_torn()
        return recall(query, limit, index=self._runtime.open_index(), log=self.conversation.log)

    @property
    def recall_tool(self) -> Tool:
        """The recall tool for the model; `Session.open(recall=True)` adds it."""
        from everturn.session.recall.tool import make_recall_tool

        return make_recall_tool(lambda: self._runtime)

    @property
    def bill(self) -> Bill:
        """What the session has cost so far, including calls for summaries, notes and holds."""
        self._runtime.collect_holds()
        return self._runtime.ledger.bill

    # ── hooks and close ──────────────────────────────────────────────────────────────────────────

    def run_hooks(self, event: HookEvent, **payload: Any) -> HookOutcome:
        """Run the hooks of an event that only the calling program can detect (HK-4)."""
        return self._runtime.run_hooks(event, **payload)

    def close(self, reason: str = "other") -> None:
        """Close the session and release its lock. Notes that have come are kept; those in progress are
        not waited for. `reason` is passed to SessionEnd hooks; with "" they do not run."""
        self._runtime.close(reason)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _make_compaction_request(instructions: str, from_: str | None, up_to: str | None) -> CompactionRequest:
    if from_ is not None and up_to is not None:
        raise UsageError("Give either `from_` or `up_to`, not both.")
    check_text("instructions", instructions, "a text")
    for name, uuid in (("from_", from_), ("up_to", up_to)):
        if uuid is not None:
            check_text(name, uuid, "the uuid of a record")
    instructions = replace_lone_surrogates(instructions)
    if from_ is not None:
        return CompactionRequest(trigger="manual", form="from", at=from_, instructions=instructions)
    if up_to is not None:
        return CompactionRequest(trigger="manual", form="up_to", at=up_to, instructions=instructions)
    return CompactionRequest(trigger="manual", instructions=instructions)
