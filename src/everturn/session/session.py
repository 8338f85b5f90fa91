"""A conversation that never ends: opened from a file, kept in it, compacted when it must be (OV-1).

    with Session.open("work.jsonl", tools=[...], system="...") as session:
        print(session.send("Fix the login test.").text)

The transcript is the truth and only grows; what belongs to it stands beside it, under its name:

    work.jsonl                the transcript, in the format of Claude Code
    work.jsonl.lock           who writes it, while somebody does
    work.jsonl.state.json     what a restart needs and the transcript does not hold
    work.jsonl.index.sqlite   the index that `recall` searches; can be deleted at any time
    work.jsonl.notes.md       the session's notes, where they are kept
    work.jsonl.files/         large results, and reports of cache breaks

Every method is called from one thread at a time; `async_session.py` has the same surface with awaits.
"""

import os
import uuid
from collections.abc import Callable, Generator, Mapping, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import msgspec

from everturn.decide.cache_breaks import CacheBreakDetector
from everturn.decide.compact.chain import plan_undo
from everturn.decide.compact.values import CompactionPlan, CompactionRequest, CompactionSkipped, Strategy
from everturn.decide.effects import HookEvent
from everturn.decide.events import Event
from everturn.decide.policy import Policy
from everturn.engine import CompactionOutcome, Conversation, ConversationSettings
from everturn.errors import UsageError
from everturn.history.blocks import Block, block_from_fields, text_of
from everturn.history.edits import Pinned, Undone
from everturn.history.records import Usage
from everturn.history.threads import split_threads
from everturn.measure.accounting import Metrics, accounts_of
from everturn.measure.capabilities import ANTHROPIC, Capabilities
from everturn.measure.meter import ContextSize
from everturn.measure.outline import Costs
from everturn.measure.thresholds import ContextThresholds, ThresholdLevels, check_thresholds
from everturn.session import opening
from everturn.session.bill import Bill
from everturn.session.config.shape import Config
from everturn.session.conversation_runner import Exchange
from everturn.session.hooks.run import Hooks
from everturn.session.loop_hooks import LoopHooks, PermissionCallback, deny_all
from everturn.session.runtime import Parts, SessionRuntime
from everturn.session.state_file import read_state
from everturn.session.store import Access, Fsync, Store
from everturn.session.tools import (
    Tool,
    ToolCall,
    ToolResult,
    can_run,
    index_tools,
    read_tool_calls,
    run_tools,
    to_blocks,
)
from everturn.session.upstream import Send, drain
from everturn.view.flatten import flatten
from everturn.view.fragments.recalled import NAME
from everturn.view.fragments.recalled import TOOL as RECALL
from everturn.view.system_prompt import SystemPromptSections
from everturn.wire.claude_code_writer import LineContext

if TYPE_CHECKING:
    import anthropic

    from everturn.session.recall.search import Hit

UserInput = str | Sequence[Mapping[str, Any] | Block | ToolResult]

# The SDK wants a stream for answers that may take longer than ten minutes; below this it does not.
MAX_TOKENS: Final = 16_000
# An agent that calls tools this often for one question has lost its way. Our choice.
MAX_ROUNDS: Final = 200


class Reply(msgspec.Struct, frozen=True):
    """What the model said at last. `calls` are those that are left to you; `stopped` says why the tool loop
    ended before the model did."""

    text: str
    calls: tuple[ToolCall, ...]
    blocks: tuple[Block, ...]
    usage: Usage
    exchange: Exchange
    stopped: str = ""


class ContextUsage(msgspec.Struct, frozen=True, kw_only=True):
    """How full the context is, and with what."""

    model: str
    window: int
    size: ContextSize
    limits: ContextThresholds
    levels: ThresholdLevels
    metrics: Metrics


class Session(SessionRuntime):
    """One conversation, its transcript and its way to the model. Made by `Session.open`."""

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        model: str = "claude-opus-5",
        policy: str | Policy | Config = "claude-code",
        tools: Sequence[Tool] = (),
        system: str | SystemPromptSections = "",
        client: "anthropic.Anthropic | None" = None,
        send: Send | None = None,
        source: str = "main",
        max_tokens: int = MAX_TOKENS,
        thinking: Mapping[str, Any] | None = None,
        effort: str = "",
        ways: Sequence[Strategy] = opening.DEFAULT_STRATEGIES,
        notes: bool = False,
        recalls: bool = False,
        hooks: Hooks | None = None,
        permit: PermissionCallback = deny_all,
        listen: Callable[[Event], None] = lambda _: None,
        roots: Sequence[str | os.PathLike[str]] = (),
        capabilities: Capabilities = ANTHROPIC,
        costs: Costs | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        new_id: Callable[[], str] = lambda: str(uuid.uuid4()),
        fsync: Fsync = "always",
        access: Access = "write",
    ) -> "Session":
        """The session in this file, made where there is none.

        `client` is the SDK's; without one, and without `send`, it is made from the environment. `roots` are
        the folders that files may be read from again after a compaction: the current one, if none is given.
        `listen` hears every event, some of them from a thread that waits for the model. `recalls` gives the
        model a tool that finds what it no longer sees. `notes` has a fork keep notes in the background,
        which costs a reading of the context each time and makes a compaction free; it needs a tool that edits
        files. `permit` decides about tool calls for which a hook wants a person to be asked; without one they
        are not made. With `access="read"` nothing is written, and nothing can be said.
        """
        config = opening.resolve_config(policy)
        given = opening.Wanted(model, policy, source, max_tokens, thinking, effort, ways, capabilities, costs)
        setting = opening.build_settings(given, config, transcript=os.path.realpath(path))
        parts = Parts(
            provider=opening.open_provider(client, send),
            config=config,
            system=system,
            tools=tuple(tools),
            takes_notes=notes and config.takes_notes and setting.compaction is not None,
            hooks=hooks or Hooks(),
            permit=permit,
            listen=listen,
            roots=tuple(os.fspath(root) for root in roots) or (os.getcwd(),),
            clock=clock,
            new_id=new_id,
        )
        store = Store.open(path, fsync=fsync, access=access, place=LineContext(cwd=os.getcwd()))
        try:
            return cls._resumed(setting, store, parts, recalls=recalls)
        except BaseException:
            store.close()
            raise

    @classmethod
    def _resumed(
        cls, setting: ConversationSettings, store: Store, parts: Parts, *, recalls: bool
    ) -> "Session":
        store.drop_lines()
        found = split_threads(store.records).main
        given = (*parts.tools, *([Tool(RECALL)] if recalls else []))
        head = opening.build_preamble(parts.system, given, setting.capabilities)
        setting = msgspec.structs.replace(setting, head=head)
        state = read_state(store.path)
        detector = CacheBreakDetector(parts.config.breaks, state.baselines)
        conversation = Conversation(setting, found.records, detector=detector)
        conversation.compaction_state.remember(state.breaker, state.refill)
        session = cls(conversation, store, parts)
        if recalls:
            session._tools = index_tools((*parts.tools, session.recall_tool))
        for note in found.notes:
            session._remark(note.what)
        session._live.emit_repairs()
        if not store.read_only_reason:
            # Whoever only looks begins nothing.
            started = session._run_hooks("SessionStart", source="resume" if found.records else "startup")
            session._append_hook_context(started.context)
        return session

    # ── talking ──────────────────────────────────────────────────────────────────────────────────

    def send(self, said: UserInput = (), *, rounds: int = MAX_ROUNDS) -> Reply:
        """Say something and hear the answer; with tools, the answer after the last of them. Nothing said
        means: go on."""
        return drain(self._talk(said, self._call, rounds))

    def stream(self, said: UserInput = (), *, rounds: int = MAX_ROUNDS) -> Generator[str, None, Reply]:
        """As `send`, text as it comes: through the SDK's stream where the session has a client, else each
        answer in one piece. What the generator returns is the reply."""
        return self._talk(said, self._live.talk, rounds)

    def _talk(
        self, said: UserInput, call: Callable[[], Generator[str, None, Exchange]], rounds: int
    ) -> Generator[str, None, Reply]:
        events: set[HookEvent] = {hook.event for hook in self._parts.hooks.hooks}
        hooks = LoopHooks(self._world.run_hooks, self._parts.permit, events=events)
        self._say(to_blocks(said), hooks)
        for left in range(rounds, -1, -1):
            exchange = yield from call()
            self._after(exchange)
            calls = read_tool_calls(exchange.response.blocks)
            if calls and not can_run(calls, self._tools):
                return _reply(exchange, calls)
            if calls and left == 0:
                return _reply(exchange, calls, stopped=f"tools were called {rounds} times in a row")
            if calls:
                self._run_tools(calls, hooks)
            elif left == 0 or not hooks.goes_on():
                return _reply(exchange, (), stopped=hooks.ended)
            self._append_hook_context(hooks.take_context())
            if hooks.ended:
                return _reply(exchange, (), stopped=hooks.ended)
        raise UsageError(f"At least one round is needed; {rounds} were allowed.")

    def _call(self) -> Generator[str, None, Exchange]:
        return self._live.call()
        yield  # a generator like the other one, though it has no pieces

    def _run_tools(self, calls: tuple[ToolCall, ...], hooks: LoopHooks) -> None:
        results, interrupt = run_tools(calls, self._tools, hooks.tool)
        self._live.put(results)
        if interrupt is not None:
            raise interrupt

    def _say(self, blocks: tuple[Block, ...], hooks: LoopHooks) -> None:
        if blocks:
            hooks.submit(blocks)
            self._live.put(blocks)
            self._append_hook_context(hooks.take_context())
        elif not self.conversation.log.view.records:
            raise UsageError("Nothing has been said in this session yet; say something first.")
        elif self._has_been_answered():
            raise UsageError("The model has answered, and nothing was said since; say something first.")

    def _has_been_answered(self) -> bool:
        """Whether the request would end with the model's own words, which only some models go on from, and
        others after a pause of their own alone."""
        if self.conversation.setting.model.prefill:
            return False
        view = self.conversation.log.view
        last = next((each.reply for each in reversed(view.records) if each.reply is not None), None)
        is_paused = last is not None and last.stop_reason == "pause_turn"
        return not is_paused and flatten(view).messages[-1].role == "assistant"

    # ── what fills the context, and what becomes of it ───────────────────────────────────────────

    def context(self) -> ContextUsage:
        setting, size = self.conversation.setting, self.conversation.size
        marks = self._limits()
        return ContextUsage(
            model=setting.model.id,
            window=setting.model.window,
            size=size,
            limits=marks,
            levels=check_thresholds(size.tokens, marks, setting.policy.thresholds),
            metrics=accounts_of(self.conversation.log.view).metrics(),
        )

    def compact(
        self, instructions: str = "", *, from_: str | None = None, up_to: str | None = None
    ) -> CompactionOutcome:
        """Summarize now, at any size (CP-27): everything, or what comes after or before a record. An
        interrupt while the summary is written ends the compaction, and nothing has changed (CP-7)."""
        self._world.interrupt_ends_call = False
        try:
            return self._live.compact(_asked(instructions, from_, up_to))
        finally:
            self._world.interrupt_ends_call = True
            self._write_state()

    def dry_run(
        self, instructions: str = "", *, from_: str | None = None, up_to: str | None = None
    ) -> CompactionPlan | CompactionSkipped:
        """What `compact` would do. Nothing happens."""
        return self.conversation.dry_run(_asked(instructions, from_, up_to), self._parts.clock())

    def undo(self) -> Undone | CompactionSkipped:
        """Take the last compaction back, by appending that it no longer holds."""
        edit = plan_undo(self.conversation.log.view)
        if isinstance(edit, Undone):
            self._append(edit)
        return edit

    def pin(self, text: str) -> None:
        """Words that every later summary carries as they are."""
        if not text.strip():
            raise UsageError("There is nothing to pin; give the words that must be kept.")
        self._append(Pinned(text, "pinned by the program"))

    # ── what was ─────────────────────────────────────────────────────────────────────────────────

    def recall(self, query: str, limit: int = 8) -> "tuple[Hit, ...]":
        """Where the session has these words, also what the model no longer sees."""
        from everturn.session.recall.search import recall

        return recall(query, limit, index=self._open_index(), log=self.conversation.log)

    @property
    def recall_tool(self) -> Tool:
        """Recall for the model: see `Session.open(recalls=True)`."""
        from everturn.session.recall.tool import answer_tool

        def run(given: Mapping[str, Any]) -> str:
            call = block_from_fields({"type": "tool_use", "id": "", "name": NAME, "input": dict(given)})
            return answer_tool(call, index=self._open_index(), log=self.conversation.log)

        return Tool(RECALL, run)

    @property
    def bill(self) -> Bill:
        """What all of it cost so far, calls for summaries and notes included."""
        return self._ledger.bill

    # ── the end ──────────────────────────────────────────────────────────────────────────────────

    def close(self) -> None:
        """Let others write. Notes that are being taken are not waited for."""
        if self._store.read_only_reason == "it was closed":
            return
        try:
            if not self._store.read_only_reason:
                self._run_hooks("SessionEnd", reason="other")
            self._write_state()
            if self._index is not None:
                self._index.close()
        finally:
            self._store.close()
            self._parts.provider.close()

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
        raise UsageError("A compaction begins at a record or ends before one; give `from_` or `up_to`.")
    if from_ is not None:
        return CompactionRequest(trigger="manual", form="from", at=from_, instructions=instructions)
    if up_to is not None:
        return CompactionRequest(trigger="manual", form="up_to", at=up_to, instructions=instructions)
    return CompactionRequest(trigger="manual", instructions=instructions)
