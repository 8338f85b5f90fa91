"""Hooks around what a session says and runs: prompts, tool calls, and the end of an answer (HK-1).

Hooks may refuse a call, change what it is given or what came out of it, add words, and ask to go on. What
they may say at all, and how it is read, is `hooks/rules.py`'s. A hook that fails changes nothing: the call is
made.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

import msgspec

from everturn.decide.effects import HookEvent, HookOutcome, RunHooks
from everturn.errors import EverturnError
from everturn.history.blocks import Block, fields_of, result_block, text_of
from everturn.session.tools import Tool, ToolCall, ToolResult, run_tool, to_result_block

HookRunner = Callable[[RunHooks], HookOutcome]
# A call that a hook wants a person to decide about, and why; whether it may be made.
PermissionCallback = Callable[[ToolCall, str], bool]

# How often in a row a Stop hook can ask to go on: a hook that is never content would never end. Our choice.
MAX_CONTINUATIONS: Final = 5


class PromptBlocked(EverturnError):
    """A UserPromptSubmit hook does not allow what was to be said. Nothing was said."""


def deny_all(call: ToolCall, why: str) -> bool:
    """Where there is no person to ask, nobody has agreed."""
    return False


class LoopHooks:
    """The hooks of one answer, from the prompt to its end."""

    def __init__(
        self, run: HookRunner, permit: PermissionCallback = deny_all, *, events: Collection[HookEvent]
    ) -> None:
        """`events` are those that have hooks: nothing is spelled out for the others."""
        self._perform, self._permit, self._events = run, permit, events
        # Words for the model that wait for their place, and why the loop is to end, where a hook said so.
        self.context: list[str] = []
        self.ended = ""
        self._went_on = 0

    def submit(self, blocks: Sequence[Block]) -> None:
        """Before something is said. Raises `PromptBlocked`. Results of tools alone are no prompt."""
        said = [text_of(block) for block in blocks if block.kind == "text"]
        if not said:
            return
        found = self._run("UserPromptSubmit", lambda: {"prompt": "\n".join(said)})
        if found.blocked:
            raise PromptBlocked(
                f"A UserPromptSubmit hook does not allow this: {found.blocked}. Nothing was said; say it "
                "differently, or change the hook."
            )
        self.context += found.context

    def tool(self, call: ToolCall, tool: Tool | None) -> Block:
        """One call, with what its hooks make of it."""
        before = self._run("PreToolUse", lambda: _told(call))
        self.ended = self.ended or before.ended
        if refused := before.ended or before.blocked or self._not_permitted(call, before):
            return result_block(call.id, f"This call was not made: {refused}", is_error=True)
        given = call.input if before.updated_input is None else before.updated_input
        made = msgspec.structs.replace(call, input=given)
        result = run_tool(made, tool)
        return self._after(made, result) if tool is not None else result

    def take_context(self) -> tuple[str, ...]:
        """What hooks have said since this was last asked."""
        said, self.context = tuple(self.context), []
        return said

    def goes_on(self) -> bool:
        """At the end of an answer: whether a Stop hook has more to be done. Its reason joins the context."""
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
        return found.asks or "a hook wants a person to decide about it, and nobody has agreed"

    def _after(self, call: ToolCall, result: Block) -> Block:
        found = self._run(
            "PostToolUse", lambda: {**_told(call), "tool_response": fields_of(result).get("content", "")}
        )
        self.ended = self.ended or found.ended
        self.context += found.context
        if found.blocked:
            self.context.append(f"{call.tool}: {found.blocked}")
        return result if found.updated_output is None else _updated(call, found.updated_output)


def _told(call: ToolCall) -> Mapping[str, Any]:
    return {"tool_name": call.tool, "tool_input": dict(call.input), "tool_use_id": call.id}


def _updated(call: ToolCall, output: Any) -> Block:
    """A text, content blocks, or any other value, which is shown as JSON."""
    parts = output if isinstance(output, list) else [None]
    is_content = all(isinstance(part, dict) and "type" in part for part in parts)
    if not isinstance(output, str) and not is_content:
        output = msgspec.json.encode(output, enc_hook=str).decode()
    return to_result_block(ToolResult(call.id, output))
