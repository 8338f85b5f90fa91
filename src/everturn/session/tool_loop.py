"""The tool loop of a session: say a message, call the model, run its tools, until it has answered.

A reply that was cut off in a tool call is repeated by the model, and a reply that paused goes on.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Final

import msgspec

from everturn.decide.effects import HookEvent
from everturn.errors import UsageError
from everturn.history.blocks import Block, text_of
from everturn.history.records import Usage
from everturn.session.conversation_runner import Exchange
from everturn.session.interrupts import InterruptibleRuntime
from everturn.session.loop_hooks import LoopHooks
from everturn.session.runtime import SessionRuntime
from everturn.session.tools import (
    ToolCall,
    ToolResult,
    can_run,
    find_cut,
    read_tool_calls,
    run_tools,
    to_blocks,
)
from everturn.session.upstream import drain
from everturn.view.cache_key import thinking_mode
from everturn.view.flatten import flatten

UserInput = str | Sequence[Mapping[str, Any] | Block | ToolResult]

# The server ran its own tools (web search) for long: the reply goes on when it is sent back (api-facts 6).
PAUSED: Final = "pause_turn"
# A model whose calls do not fit into `max_tokens` would try until its rounds are used up. Our choice.
MAX_CUTS: Final = 3


class Reply(msgspec.Struct, frozen=True):
    """The model's last reply. `calls` are tool calls that the caller must answer; `stopped` says why the tool
    loop ended early, or is empty."""

    text: str
    calls: tuple[ToolCall, ...]
    blocks: tuple[Block, ...]
    usage: Usage
    exchange: Exchange
    stopped: str = ""


class ToolLoop:
    """Answers messages. The runtime is asked for at every step, because a tool may rewind the session."""

    def __init__(self, current: InterruptibleRuntime) -> None:
        self._current = current

    @property
    def _runtime(self) -> SessionRuntime:
        return self._current.runtime

    def send(self, message: UserInput, rounds: int | None) -> Reply:
        return drain(self._talk(message, self._call, rounds))

    def stream(self, message: UserInput, rounds: int | None) -> Generator[str, None, Reply]:
        return self._talk(message, lambda: self._runtime.runner.talk(), rounds)

    def _talk(
        self, message: UserInput, call: Callable[[], Generator[str, None, Exchange]], rounds: int | None
    ) -> Generator[str, None, Reply]:
        rounds = self._runtime.parts.options.limits.rounds if rounds is None else rounds
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
        elif not self._runtime.conversation.log.view.records:
            raise UsageError("This session has no messages yet; send a message first.")
        elif self._has_been_answered():
            raise UsageError("The model has already answered the last message; send a new message first.")

    def _has_been_answered(self) -> bool:
        """Whether the request would end with an assistant message. Only models with prefill accept that, and
        only without thinking; others only after they paused themselves (`pause_turn`)."""
        setting, view = self._runtime.conversation.setting, self._runtime.conversation.log.view
        if setting.model.prefill and thinking_mode(setting.model, setting.parameters) == "disabled":
            return False
        last = next((each.reply for each in reversed(view.records) if each.reply is not None), None)
        is_paused = last is not None and last.stop_reason == PAUSED
        return not is_paused and flatten(view).messages[-1].role == "assistant"


def _reply(exchange: Exchange, calls: tuple[ToolCall, ...], *, stopped: str = "") -> Reply:
    blocks = exchange.response.blocks
    text = "".join(text_of(block) for block in blocks if block.kind == "text")
    return Reply(text, calls, blocks, exchange.response.reply.usage or Usage(), exchange, stopped)
