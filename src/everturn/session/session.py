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
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self

import msgspec

from everturn.decide.cache_breaks import CacheBreakDetector
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
from everturn.decide.rewind import Branch, list_branches, plan_rewind
from everturn.engine import CompactionOutcome, Conversation, ConversationSettings
from everturn.errors import UsageError
from everturn.history.blocks import Block, block_from_fields, text_of
from everturn.history.edits import Pinned, Rewound, Undone
from everturn.history.records import Record, Usage
from everturn.history.threads import split_threads
from everturn.measure.accounting import Metrics
from everturn.measure.calibration import Calibration
from everturn.measure.capabilities import Capabilities
from everturn.measure.meter import ContextSize
from everturn.measure.outline import TokenCosts
from everturn.measure.thresholds import ContextThresholds, ThresholdLevels
from everturn.measure.tokens import Estimator
from everturn.session.bill import Bill
from everturn.session.config.load import ConfigChoice, resolve_options
from everturn.session.conversation_runner import Exchange
from everturn.session.deferred_tools import defer_tools
from everturn.session.hold_memory import HoldMemory
from everturn.session.hold_records import read_holds
from everturn.session.hold_timers import THREADS, HoldTimer
from everturn.session.hooks.load import load_hooks
from everturn.session.hooks.run import Hooks, add_hooks
from everturn.session.loop_hooks import LoopHooks, PermissionCallback, deny_all
from everturn.session.memory_files.attach import open_memory
from everturn.session.memory_files.confined import ReadPermission, allow_all
from everturn.session.new_ids import new_uuid
from everturn.session.one_speaker import OneSpeaker
from everturn.session.opening import build_preamble, build_settings, capabilities_of, connect
from everturn.session.recorded import recorded_folder
from everturn.session.runtime import SessionParts, SessionRuntime
from everturn.session.state_file import SessionState, read_state
from everturn.session.store.places import open_session_store
from everturn.session.store.protocol import Access, Store
from everturn.session.tools import (
    Tool,
    ToolCall,
    ToolResult,
    can_run,
    find_cut,
    index_tools,
    read_tool_calls,
    run_tools,
    to_blocks,
)
from everturn.session.transcripts import open_transcript, read_queued_messages
from everturn.session.upstream import Send, drain
from everturn.view.cache_key import thinking_mode
from everturn.view.flatten import flatten
from everturn.view.fragments.recalled import NAME
from everturn.view.fragments.recalled import TOOL as RECALL
from everturn.view.system_prompt import SystemPromptSections
from everturn.wire.claude_code_writer import LineContext

if TYPE_CHECKING:
    import anthropic

    from everturn.session.recall.search import Hit

SessionStart = Literal["auto", "clear", "none"]
UserInput = str | Sequence[Mapping[str, Any] | Block | ToolResult]

# The server ran its own tools (web search) for long: the reply goes on when it is sent back (api-facts 6).
PAUSED: Final = "pause_turn"
# A model whose calls do not fit into `max_tokens` would try until its rounds are used up. Our choice.
MAX_CUTS: Final = 3
# Keyword arguments of version 0.1, and the configuration keys that replaced them.
RENAMED_ARGUMENTS: Final = {
    "ways": "compact.strategies",
    "recalls": "recall.enabled",
    "fsync": "store.fsync",
}


class Reply(msgspec.Struct, frozen=True):
    """The model's last reply. `calls` are tool calls that the caller must answer; `stopped` says why the tool
    loop ended early, or is empty."""

    text: str
    calls: tuple[ToolCall, ...]
    blocks: tuple[Block, ...]
    usage: Usage
    exchange: Exchange
    stopped: str = ""


class Rewind(msgspec.Struct, frozen=True):
    """`text` is the message of the user that was taken back; `left` is the newest message left behind, and
    `messages` how many there are."""

    text: str
    left: str
    messages: int


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

    def __init__(self, runtime: SessionRuntime) -> None:
        self._runtime = runtime
        self._speakers = OneSpeaker()
        # An interrupt has ended a call in the middle of our own code.
        self._is_torn = False

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
        hooks: Hooks | None = None,
        permit: PermissionCallback = deny_all,
        may_read: ReadPermission = allow_all,
        listen: Callable[[Event], None] = lambda _: None,
        roots: Sequence[str | os.PathLike[str]] = (),
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
        """
        loaded = resolve_options(options, _renamed(overrides), config=config)
        chosen = loaded.options
        able, told = capabilities or capabilities_of(chosen), _told_path(path, chosen)
        settings = build_settings(
            chosen, capabilities=able, costs=costs, transcript=told, estimator=estimator
        )
        found = load_hooks(chosen.hooks)
        store, end_stores = open_session_store(path, chosen.store, access)
        try:
            folder = _place_session(store, cwd)
            memory = open_memory(chosen.memory, folder, may_read)
            parts = SessionParts(
                provider=connect(client, send, chosen.provider),
                options=chosen,
                system=memory.add_to(system) if memory else system,
                tools=tuple(memory.attach_to(tool) if memory else tool for tool in tools),
                memory=memory,
                hooks=add_hooks(hooks or Hooks(), found.hooks),
                permit=permit,
                listen=listen,
                roots=tuple(os.fspath(root) for root in roots) or (folder,),
                cwd=folder,
                clock=clock,
                new_id=new_id,
                hold_timer=hold_timer,
                end_stores=end_stores,
            )
            session = cls._resume(settings, store, parts, session_start)
        except BaseException:
            end_stores()
            raise
        session._runtime.remark(*loaded.notes, *found.notes)
        return session

    @classmethod
    def _resume(
        cls, settings: ConversationSettings, store: Store, parts: SessionParts, start: SessionStart
    ) -> "Session":
        holds = read_holds(store.records)
        store.drop_lines()
        found = split_threads(store.records).main
        conversation = _restore_conversation(settings, found.records, read_state(store), parts)
        runtime = SessionRuntime(conversation, store, parts)
        runtime.take_holds(holds)
        session = cls(runtime)
        if parts.options.recall.enabled:
            runtime.tools = index_tools((*parts.tools, session.recall_tool))
        for note in found.notes:
            runtime.remark(note.what)
        runtime.runner.emit_repairs()
        # A session opened for reading runs no SessionStart hooks.
        if not store.read_only_reason and start != "none":
            source = "resume" if found.records else "startup"
            started = runtime.run_hooks("SessionStart", source=source if start == "auto" else start)
            runtime.append_hook_context(started.context)
        return session

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

    # ── interrupts ───────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def _changing(self) -> Generator[None]:
        """One call that changes what is said, by one speaker."""
        with self._speakers.speaking(), self._interruptible():
            yield

    @contextmanager
    def _interruptible(self) -> Generator[None]:
        """Ctrl-C can end a call between any two steps, also between the file and what is in memory: unless
        the session only waited, the next call reads the file again."""
        self._reload_if_torn()
        runner, is_writable = self._runtime.runner, not self._runtime.store.read_only_reason
        runner.is_waiting = False
        try:
            yield
        except (Exception, GeneratorExit):
            raise
        except BaseException:
            self._is_torn = is_writable and not runner.is_waiting
            raise

    def _reload_if_torn(self) -> None:
        if not self._is_torn or self._runtime.store.is_closed:
            return
        remarks = self.remarks
        self._reload()
        self._runtime.remark(*remarks)
        self._is_torn = False

    def _reload(self) -> None:
        """Go on with what the file holds."""
        runtime = self._runtime
        store = runtime.reopen_store()
        self._runtime = Session._resume(self.conversation.setting, store, runtime.parts, "none")._runtime

    # ── sending ──────────────────────────────────────────────────────────────────────────────────

    def send(self, message: UserInput = (), *, rounds: int | None = None) -> Reply:
        """Send a message and return the reply. With tools, it is the reply after the last tool call. Without
        a message, the model continues from where it is."""
        with self._changing():
            return drain(self._talk(message, self._call, rounds))

    def stream(self, message: UserInput = (), *, rounds: int | None = None) -> Generator[str, None, Reply]:
        """As `send`, and yield the text as it arrives; without an SDK client, each reply in one piece. The
        generator returns the reply."""
        with self._changing():
            return (yield from self._talk(message, self._runtime.runner.talk, rounds))

    def _talk(
        self, message: UserInput, call: Callable[[], Generator[str, None, Exchange]], rounds: int | None
    ) -> Generator[str, None, Reply]:
        rounds = self.options.limits.rounds if rounds is None else rounds
        events: set[HookEvent] = {hook.event for hook in self._runtime.parts.hooks.hooks}
        hooks = LoopHooks(self._runtime.handler.run_hooks, self._runtime.parts.permit, events=events)
        self._say(to_blocks(message), hooks)
        cuts = 0
        for left in range(rounds, -1, -1):
            exchange = yield from call()
            self._runtime.after_exchange(exchange)
            calls, cut = read_tool_calls(exchange.response.blocks), find_cut(exchange.response)
            cuts = cuts + 1 if cut else 0
            if calls and not can_run(calls, self._runtime.tools):
                return _reply(exchange, calls, stopped=cut)
            if calls and left == 0:
                return _reply(exchange, calls, stopped=f"tools were called {rounds} times in a row")
            if calls:
                self._run_tools(calls, hooks, cut)
                if cuts == MAX_CUTS:
                    return _reply(exchange, (), stopped=f"{cut} in a tool call {cuts} times in a row")
            elif exchange.response.reply.stop_reason == PAUSED:
                if left == 0:
                    return _reply(exchange, (), stopped="the model paused; `send()` lets it go on")
                continue
            elif left == 0 or not hooks.goes_on():
                return _reply(exchange, (), stopped=hooks.ended)
            self._runtime.append_hook_context(hooks.take_context())
            if hooks.ended:
                return _reply(exchange, (), stopped=hooks.ended)
        raise UsageError(f"`rounds` must be at least 0; it is {rounds}.")

    def _call(self) -> Generator[str, None, Exchange]:
        return self._runtime.runner.call()
        yield  # never reached; makes this a generator, as `ConversationRunner.talk` is

    def _run_tools(self, calls: tuple[ToolCall, ...], hooks: LoopHooks, cut: str) -> None:
        results, interrupt = run_tools(calls, self._runtime.tools, hooks.tool, cut=cut)
        self._runtime.runner.put(results)
        if interrupt is not None:
            self._runtime.runner.is_waiting = True
            raise interrupt

    def _say(self, blocks: tuple[Block, ...], hooks: LoopHooks) -> None:
        if blocks:
            hooks.submit(blocks)
            self._runtime.runner.put(blocks)
            self._runtime.append_hook_context(hooks.take_context())
        elif not self.conversation.log.view.records:
            raise UsageError("This session has no messages yet; send a message first.")
        elif self._has_been_answered():
            raise UsageError("The model has already answered the last message; send a new message first.")

    def _has_been_answered(self) -> bool:
        """Whether the request would end with an assistant message. Only models with prefill accept that, and
        only without thinking; others only after they paused themselves (`pause_turn`)."""
        setting = self.conversation.setting
        if setting.model.prefill and thinking_mode(setting.model, setting.parameters) == "disabled":
            return False
        view = self.conversation.log.view
        last = next((each.reply for each in reversed(view.records) if each.reply is not None), None)
        is_paused = last is not None and last.stop_reason == PAUSED
        return not is_paused and flatten(view).messages[-1].role == "assistant"

    # ── context and compaction ───────────────────────────────────────────────────────────────────

    def context(self) -> ContextUsage:
        self._reload_if_torn()
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
        with self._changing():
            self._runtime.handler.interrupt_ends_call = False
            try:
                return self._runtime.runner.compact(_asked(instructions, from_, up_to))
            finally:
                self._runtime.handler.interrupt_ends_call = True
                self._runtime.write_state()

    def dry_run(
        self, instructions: str = "", *, from_: str | None = None, up_to: str | None = None
    ) -> CompactionPlan | CompactionSkipped:
        """What `compact` would do, without doing it."""
        self._reload_if_torn()
        return self.conversation.dry_run(_asked(instructions, from_, up_to), self._runtime.parts.clock())

    def propose_compaction(self) -> Proposal | None:
        """A compaction ahead of time, at a good moment: from `compact.cold_share` of the automatic threshold
        on, when the cache is cold or the task is finished. None where there is nothing to propose (CP-24)."""
        self._reload_if_torn()
        return self.conversation.propose_compaction(self._runtime.parts.clock())

    def answer_proposal(self, proposal: Proposal, response: ProposalResponse) -> CompactionOutcome:
        """What the user says to a proposal. "accept" compacts now; "defer" proposes it again after
        `compact.defer_tokens` more tokens; "decline" leaves it to the automatic threshold."""
        with self._changing():
            try:
                return self._runtime.runner.answer_proposal(proposal, response)
            finally:
                self._runtime.write_state()

    def undo(self) -> Undone | CompactionSkipped:
        """Undo the last compaction by appending a record that says so."""
        with self._changing():
            edit = plan_undo(self.conversation.log.view)
            if isinstance(edit, Undone):
                self._runtime.append_edit(edit)
                self._runtime.write_state()
            return edit

    def rewind(self, uuid: str) -> "Rewind":
        """Go back to an earlier message and go on from there. A message of the user is itself taken back, to
        be said differently; a reply stays. What was said since is left behind in the transcript: rewinding to
        one of its replies returns to it. Raises UsageError if there is no such message."""
        with self._changing():
            return self._rewind(uuid)

    def _rewind(self, uuid: str) -> "Rewind":
        runtime = self._runtime
        recorded = split_threads(open_transcript(self.path).records).main
        plan = plan_rewind((*recorded.abandoned, *recorded.records), uuid)
        if isinstance(plan, str):
            raise UsageError(plan)
        left = [each for each in self.conversation.log.records if each.kind in ("user", "assistant")]
        runtime.append_rewind(Rewound(uuid), plan.last)
        self._reload()
        self.conversation.economy.record_rewind()
        self._runtime.write_state()
        kept = {each.uuid for each in self.conversation.log.records}
        behind = [each for each in left if each.uuid not in kept]
        return Rewind(plan.text, behind[-1].uuid if behind else "", len(behind))

    def branches(self) -> tuple[Branch, ...]:
        """The branches that rewinds have left behind, the last one at the end. `rewind` with the uuid of one
        returns to it."""
        return list_branches(split_threads(open_transcript(self.path).records).main.abandoned)

    def pin(self, text: str) -> None:
        """Pin a text: every later compaction keeps it word for word. Raises UsageError if there is no space
        left for it."""
        # A hook runs in its own thread while the speaker waits for it, and may pin.
        with self._interruptible():
            conversation, estimate = self.conversation, self._runtime.conversation.estimate_text
            problem = check_pin(text, conversation.log.view.pins, self.options.compact, estimate)
            if problem:
                raise UsageError(problem)
            self._runtime.append_edit(Pinned(text, "pinned by the program"))

    # ── recall and cost ──────────────────────────────────────────────────────────────────────────

    def recall(self, query: str, limit: int = 8) -> "tuple[Hit, ...]":
        """Search the full history of the session, including what the model no longer sees."""
        from everturn.session.recall.search import recall

        return recall(query, limit, index=self._runtime.open_index(), log=self.conversation.log)

    @property
    def recall_tool(self) -> Tool:
        """The recall tool for the model; `Session.open(recall=True)` adds it."""
        from everturn.session.recall.tool import answer_tool

        def run(given: Mapping[str, Any]) -> str:
            call = block_from_fields({"type": "tool_use", "id": "", "name": NAME, "input": dict(given)})
            return answer_tool(call, index=self._runtime.open_index(), log=self.conversation.log)

        return Tool(RECALL, run)

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
        """Close the session and release its lock. Notes in progress are not waited for. `reason` is passed to
        SessionEnd hooks; with "" they do not run."""
        self._runtime.close(reason)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _reply(exchange: Exchange, calls: tuple[ToolCall, ...], *, stopped: str = "") -> Reply:
    blocks = exchange.response.blocks
    text = "".join(text_of(block) for block in blocks if block.kind == "text")
    return Reply(text, calls, blocks, exchange.response.reply.usage or Usage(), exchange, stopped)


def _asked(instructions: str, from_: str | None, up_to: str | None) -> CompactionRequest:
    if from_ is not None and up_to is not None:
        raise UsageError("Give either `from_` or `up_to`, not both.")
    if from_ is not None:
        return CompactionRequest(trigger="manual", form="from", at=from_, instructions=instructions)
    if up_to is not None:
        return CompactionRequest(trigger="manual", form="up_to", at=up_to, instructions=instructions)
    return CompactionRequest(trigger="manual", instructions=instructions)


def _told_path(path: str | os.PathLike[str], options: Options) -> str:
    """The transcript that the model is told to read; it cannot read one in a database."""
    return "" if options.store.url else os.path.realpath(path)


def _place_session(store: Store, cwd: str | os.PathLike[str] | None) -> str:
    """The folder that the session works in: as given, else as recorded, else the current one."""
    folder = os.fspath(cwd) if cwd is not None else recorded_folder(store.records) or os.getcwd()
    store.place = LineContext(cwd=folder)
    return folder


def _renamed(overrides: Mapping[str, Any]) -> dict[str, Any]:
    return {RENAMED_ARGUMENTS.get(name, name): value for name, value in overrides.items()}


def _restore_conversation(
    settings: ConversationSettings, records: Sequence[Record], state: SessionState, parts: SessionParts
) -> Conversation:
    """The engine's conversation with these records, and with what the last process knew about it."""
    recall = [Tool(RECALL)] if parts.options.recall.enabled else []
    tools = defer_tools((*parts.tools, *recall), state.deferred_tools or ())
    preamble = build_preamble(parts.system, tools, settings.capabilities)
    conversation = Conversation(
        msgspec.structs.replace(settings, preamble=preamble),
        records,
        detector=CacheBreakDetector(parts.options.cache.breaks, state.baselines),
    )
    conversation.compaction_state.remember(state.breaker, state.refill)
    economy = conversation.economy
    economy.state, economy.decisions = state.economy, state.decisions
    economy.lost_holds = dict(state.lost_holds)
    if parts.options.holds_cache:
        economy.lost_holds |= HoldMemory(parts.options.provider).read(parts.clock())
    if records and settings.transcript:
        conversation.take_queued(read_queued_messages(settings.transcript, records))
    return conversation
