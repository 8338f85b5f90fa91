"""The tool loop of a session: say a message, call the model, run its tools, until it has answered.

A reply that was cut off in a tool call is repeated by the model, and a reply that paused goes on.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Final

import msgspec

from everturn.decide.effects import HookEvent
from everturn.errors import UsageError
from everturn.history.blocks import Block, text_of
from everturn.history.records import PAUSED, Usage
from everturn.session.conversation_runner import Exchange
from everturn.session.interrupts import InterruptibleRuntime
from everturn.session.loop_hooks import LoopHooks
from everturn.session.program_objects import check_count
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
from everturn.view.tool_loop import lacks_thinking

UserInput = str | Sequence[Mapping[str, Any] | Block | ToolResult]

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

    def __str__(self) -> str:
        return self.text


class ToolLoop:
    """Answers messages. The runtime is asked for at every step, because a tool may rewind the session."""

    def __init__(self, current: InterruptibleRuntime) -> None:
        self._current = current
        self._is_running_tools = False

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
        if self._is_running_tools:
            raise UsageError(
                "A tool cannot send a message in the session that runs it: the model waits for its result. "
                "Return the text as the result, or open another session for it."
            )
        rounds = self._runtime.parts.options.limits.rounds if rounds is None else rounds
        check_count("rounds", rounds, 0)
        events: set[HookEvent] = {hook.event for hook in self._runtime.parts.hooks.hooks}
        hooks = LoopHooks(self._runtime.handler.run_hooks, self._runtime.parts.permit, events=events)
        self._append_message(to_blocks(message), hooks)
        cuts = 0
        for left in range(rounds, -1, -1):
            exchange = yield from call()
            self._runtime.after_exchange(exchange)
            calls, cut = read_tool_calls(exchange.response.blocks), find_cut(exchange.response)
            cuts = cuts + 1 if cut else 0
            if calls and not can_run(calls, self._runtime.tools):
                return _make_reply(exchange, calls, stopped=cut)
            if calls and left == 0:
                return _make_reply(exchange, calls, stopped=f"tools were called {rounds} times in a row")
            if calls:
                self._run_tools(calls, hooks, cut)
                if cuts == MAX_CUTS:
                    return _make_reply(exchange, (), stopped=f"{cut} in a tool call {cuts} times in a row")
            elif exchange.response.reply.stop_reason == PAUSED:
                if left == 0:
                    return _make_reply(exchange, (), stopped="the model paused; `send()` lets it go on")
                continue
            elif left == 0 or not hooks.run_stop():
                return _make_reply(exchange, (), stopped=hooks.ended)
            self._runtime.append_hook_context(hooks.take_context())
            if hooks.ended:
                return _make_reply(exchange, (), stopped=hooks.ended)
        raise AssertionError("the last round returns")

    def _call(self) -> Generator[str, None, Exchange]:
        return self._runtime.runner.call()
        yield  # never reached; makes this a generator, as `ConversationRunner.talk` is

    def _run_tools(self, calls: tuple[ToolCall, ...], hooks: LoopHooks, cut: str) -> None:
        self._is_running_tools = True
        try:
            results, interrupt = run_tools(calls, self._runtime.tools, hooks.call_tool, cut=cut)
        finally:
            self._is_running_tools = False
        self._runtime.runner.put(results)
        if interrupt is not None:
            self._runtime.runner.is_waiting = True
            raise interrupt

    def _append_message(self, blocks: tuple[Block, ...], hooks: LoopHooks) -> None:
        if blocks:
            hooks.run_prompt_submit(blocks)
            self._runtime.runner.put(blocks)
            self._runtime.append_hook_context(hooks.take_context())
        else:
            self._check_can_go_on()

    def _check_can_go_on(self) -> None:
        """Raise `UsageError` if the model cannot go on without a new message."""
        setting, view = self._runtime.conversation.setting, self._runtime.conversation.log.view
        # Records alone are not enough: a pin is one, and so is a rewind to the first message.
        messages = flatten(view).messages
        if not messages:
            raise UsageError("This session has no messages yet; send a message first.")
        reply = next((each.reply for each in reversed(view.records) if each.reply is not None), None)
        is_paused = reply is not None and reply.stop_reason == PAUSED
        mode = thinking_mode(setting.model, setting.parameters)
        if is_paused and messages[-1].role == "assistant" and lacks_thinking(messages, mode):
            raise UsageError(
                f"The model paused in a reply without thinking, and with thinking {mode} the API does not go "
                'on with it; send a message such as "Go on.", or open the session without that mode.'
            )
        if is_paused or messages[-1].role != "assistant":
            return
        # The request would end with an assistant message. Only models with prefill accept that, and only
        # without thinking; others only after they paused themselves (`pause_turn`).
        if not setting.model.prefill or mode != "disabled":
            raise UsageError("The model has already answered the last message; send a new message first.")
        last = messages[-1].blocks[-1]
        if last.kind == "text" and text_of(last)[-1:].isspace():
            raise UsageError(
                "The last reply ends with white space, and the API does not go on from there; "
                'send a message such as "Go on."'
            )


def _make_reply(exchange: Exchange, calls: tuple[ToolCall, ...], *, stopped: str = "") -> Reply:
    blocks = exchange.response.blocks
    text = "".join(text_of(block) for block in blocks if block.kind == "text")
    return Reply(text, calls, blocks, exchange.response.reply.usage or Usage(), exchange, stopped)
