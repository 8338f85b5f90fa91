"""Tools that a session can run by itself: a definition for the model, and a function for us.

Whatever a tool does wrong becomes a result that says so: the model can do something about it, a traceback in
the middle of a turn helps nobody. Only an interrupt goes through, after every open call got its answer.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from everturn.errors import UsageError
from everturn.history.blocks import RESULT, Block, block_from_fields, fields_of, result_block

# A text, or the content blocks of a result (pictures).
ToolContent = str | Sequence[Mapping[str, Any]]
# What of an exception is told to the model; the rest of a long message is noise.
MAX_ERROR_CHARACTERS: Final = 2_000


class Tool(msgspec.Struct, frozen=True):
    """`definition` is what the API takes: name, description, input_schema. Without `run`, its calls are
    handed to whoever called `send`."""

    definition: Mapping[str, Any]
    run: Callable[[Mapping[str, Any]], ToolContent] | None = None

    @property
    def name(self) -> str:
        return str(self.definition.get("name", ""))


class ToolCall(msgspec.Struct, frozen=True):
    """A call that the model made."""

    id: str
    tool: str
    input: Mapping[str, Any]


class ToolResult(msgspec.Struct, frozen=True):
    """What came out of a call, for those who run tools themselves."""

    call: str
    content: ToolContent
    is_error: bool = False


def index_tools(tools: Sequence[Tool]) -> dict[str, Tool]:
    named: dict[str, Tool] = {}
    for tool in tools:
        if not tool.name:
            raise UsageError(f"A tool needs a name in its definition; this one has {dict(tool.definition)}.")
        if tool.name in named:
            raise UsageError(f"There are two tools named {tool.name!r}. Give one of them another name.")
        named[tool.name] = tool
    return named


def read_tool_calls(blocks: Sequence[Block]) -> tuple[ToolCall, ...]:
    return tuple(_call(block) for block in blocks if block.is_call)


def _call(block: Block) -> ToolCall:
    given = fields_of(block).get("input")
    return ToolCall(block.call, block.tool, given if isinstance(given, dict) else {})


def can_run(calls: Sequence[ToolCall], tools: Mapping[str, Tool]) -> bool:
    """Whether all of them are ours to answer. A tool that nobody gave is: the model is told that it is not
    there. One that was given without a function is the caller's, and then all results are."""
    return bool(tools) and all(call.tool not in tools or tools[call.tool].run for call in calls)


def run_tools(
    calls: Sequence[ToolCall],
    tools: Mapping[str, Tool],
    run: Callable[[ToolCall, Tool | None], Block] | None = None,
) -> tuple[tuple[Block, ...], BaseException | None]:
    """A result for every call, in their order; and the interrupt that ended them early, where one did. `run`
    makes one call, where more is to be done than that (`loop_hooks.py`)."""
    results: list[Block] = []
    run = run or run_tool
    for at, call in enumerate(calls):
        try:
            results.append(run(call, tools.get(call.tool)))
        except Exception as problem:
            said = f"{type(problem).__name__}: {problem}"[:MAX_ERROR_CHARACTERS]
            results.append(result_block(call.id, said, is_error=True))
        except BaseException as interrupt:
            words = "Interrupted by the user before it was done."
            left = (result_block(each.id, words, is_error=True) for each in calls[at:])
            return (*results, *left), interrupt
    return tuple(results), None


def run_tool(call: ToolCall, tool: Tool | None) -> Block:
    if tool is None or tool.run is None:
        return result_block(call.id, f"There is no tool named {call.tool!r} here.", is_error=True)
    return to_result_block(ToolResult(call.id, tool.run(call.input)))


def to_result_block(result: ToolResult) -> Block:
    if isinstance(result.content, str):
        return result_block(result.call, result.content, is_error=result.is_error)
    fields: dict[str, Any] = {"type": RESULT, "tool_use_id": result.call}
    fields["content"] = [dict(part) for part in result.content]
    return block_from_fields(fields | ({"is_error": True} if result.is_error else {}))


def to_blocks(said: "str | Sequence[Mapping[str, Any] | Block | ToolResult]") -> tuple[Block, ...]:
    """What a person or a program says, as content blocks."""
    if isinstance(said, str):
        said = [{"type": "text", "text": said}]
    found: list[Block] = []
    for part in said:
        match part:
            case Block():
                found.append(part)
            case ToolResult():
                found.append(to_result_block(part))
            case Mapping():
                found.append(block_from_fields(dict(part)))
            case _:
                raise UsageError(f"A message is a text or a list of content blocks; this is a {type(part)}.")
    # The API refuses blocks without text; a person who said nothing meant nothing.
    return tuple(block for block in found if block.kind != "text" or fields_of(block).get("text"))
