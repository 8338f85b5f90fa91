"""Hooks of the tool loop: before a prompt, around tool calls, and at the end of an answer (HK-1).

A hook may refuse a tool call, change its input or output, add context for the model, and make the loop
continue. Which fields a hook may return is defined in `hooks/rules.py`. A hook that fails changes nothing:
the call is made.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

import msgspec

from everturn.decide.effects import HookEvent, HookOutcome, RunHooks
from everturn.errors import PromptBlocked
from everturn.history.blocks import Block, fields_of, result_block, text_of
from everturn.session.tools import Tool, ToolCall, ToolResult, run_tool, to_result_block

HookRunner = Callable[[RunHooks], HookOutcome]
# Takes a call that a hook wants a person to confirm, and the reason; returns whether to make the call.
PermissionCallback = Callable[[ToolCall, str], bool]

# How often in a row a Stop hook can make the loop continue, so that it cannot run forever. Our choice.
MAX_CONTINUATIONS: Final = 5


def deny_all(call: ToolCall, why: str) -> bool:
    """The default: without a person to ask, the call is not made."""
    return False


class LoopHooks:
    """Runs the hooks of one answer, from the prompt to the end."""

    def __init__(
        self, run: HookRunner, permit: PermissionCallback = deny_all, *, events: Collection[HookEvent]
    ) -> None:
        """`events` are the events that have hooks; no payload is built for others."""
        self._perform, self._permit, self._events = run, permit, events
        # Texts for the model that are not appended yet; and why a hook ended the loop, or "".
        self.context: list[str] = []
        self.ended = ""
        self._went_on = 0

    def run_prompt_submit(self, blocks: Sequence[Block]) -> None:
        """Run the hooks of a user message; raises `PromptBlocked`. A message that holds only tool results is
        not a prompt."""
        texts = [text_of(block) for block in blocks if block.kind == "text"]
        if not texts:
            return
        found = self._run("UserPromptSubmit", lambda: {"prompt": "\n".join(texts)})
        if found.blocked:
            raise PromptBlocked(
                f"A UserPromptSubmit hook blocked this message: {found.blocked}. Nothing was sent; rephrase "
                "the message, or change the hook."
            )
        self.context += found.context

    def call_tool(self, call: ToolCall, tool: Tool | None) -> Block:
        """Make one tool call with its hooks; the block is its result."""
        before = self._run("PreToolUse", lambda: _call_payload(call))
        self.ended = self.ended or before.ended
        if refused := before.ended or before.blocked or self._not_permitted(call, before):
            return result_block(call.id, f"This call was not made: {refused}", is_error=True)
        given = call.input if before.updated_input is None else before.updated_input
        made = msgspec.structs.replace(call, input=given)
        result = run_tool(made, tool)
        return self._after(made, result) if tool is not None else result

    def take_context(self) -> tuple[str, ...]:
        """The texts that hooks added since the last call of this method."""
        texts, self.context = tuple(self.context), []
        return texts

    def run_stop(self) -> bool:
        """Run the Stop hooks at the end of an answer. Returns whether one of them makes the loop continue;
        its reason is added to the context."""
        found = self._run("Stop", lambda: {"stop_hook_active": self._went_on > 0})
        self.ended = self.ended or found.ended
        if self.ended or not found.blocked:
            return False
        if self._went_on == MAX_CONTINUATIONS:
            self.ended = f"a Stop hook asked to go on more than {MAX_CONTINUATIONS} times: {found.blocked}"
            return False
        self._went_on += 1
        self.context.append(found.blocked)
        return True

    def _run(self, event: HookEvent, payload: Callable[[], Mapping[str, Any]]) -> HookOutcome:
        return self._perform(RunHooks(event, payload())) if event in self._events else HookOutcome()

    def _not_permitted(self, call: ToolCall, found: HookOutcome) -> str:
        if found.permission != "ask" or self._permit(call, found.asks):
            return ""
        return found.asks or "a hook requires a person to confirm it, and nobody did"

    def _after(self, call: ToolCall, result: Block) -> Block:
        found = self._run(
            "PostToolUse",
            lambda: {**_call_payload(call), "tool_response": fields_of(result).get("content", "")},
        )
        self.ended = self.ended or found.ended
        self.context += found.context
        if found.blocked:
            self.context.append(f"{call.tool}: {found.blocked}")
        if found.updated_output is None:
            return result
        # A text, content blocks, or another value, which becomes JSON.
        return to_result_block(ToolResult(call.id, found.updated_output))


def _call_payload(call: ToolCall) -> Mapping[str, Any]:
    return {"tool_name": call.tool, "tool_input": dict(call.input), "tool_use_id": call.id}
