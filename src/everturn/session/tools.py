"""Tools that a session runs: a definition for the model and a function to call.

An exception in a tool becomes an error result, so that the model can react to it. Only an interrupt is
raised, after every open call has a result.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeGuard

import msgspec

from everturn.errors import UsageError
from everturn.history.blocks import TOOL_RESULT, Block, block_from_fields, fields_of, result_block
from everturn.session.content_blocks import find_flaw, to_result_content
from everturn.session.valid_text import make_encodable, replace_lone_surrogates
from everturn.wire.anthropic import Response, without_cache_control
from everturn.wire.json_values import as_mapping

# A text, or the content blocks of a result (pictures), also those of MCP. Other values are sent as JSON.
ToolContent = str | Sequence[Mapping[str, Any]]
# How much of an exception's message the model gets.
MAX_ERROR_CHARACTERS: Final = 2_000
# How much of a wrong block an error message shows.
MAX_SHOWN_CHARACTERS: Final = 120
# A reply with one of these ends where its limit was, also in the middle of a call (api-facts 6).
CUT_REPLIES: Final = frozenset({"max_tokens", "model_context_window_exceeded", "refusal"})


class Tool(msgspec.Struct, frozen=True):
    """`definition` is what the API takes: name, description, input_schema. Without `run`, its calls are
    returned to the caller of `send`."""

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
    """The result of a tool call, for callers that run tools themselves."""

    call: str
    content: ToolContent
    is_error: bool = False


def index_tools(tools: Sequence[Tool]) -> dict[str, Tool]:
    named: dict[str, Tool] = {}
    for tool in tools:
        if not tool.name:
            raise UsageError(f"A tool needs a name in its definition; this one has {dict(tool.definition)}.")
        if tool.name in named:
            raise UsageError(f"Two tools are named {tool.name!r}. Give one of them another name.")
        named[tool.name] = tool
    return named


def read_tool_calls(blocks: Sequence[Block]) -> tuple[ToolCall, ...]:
    return tuple(_call(block) for block in blocks if block.is_call)


def _call(block: Block) -> ToolCall:
    return ToolCall(block.call, block.tool, as_mapping(fields_of(block).get("input")) or {})


def can_run(calls: Sequence[ToolCall], tools: Mapping[str, Tool]) -> bool:
    """Whether the session can answer all calls. For an unknown tool it can: the model gets an error result.
    If one call is for a tool without a function, the caller must answer all of them."""
    return bool(tools) and all(call.tool not in tools or tools[call.tool].run for call in calls)


def find_cut(response: Response) -> str:
    """Why the input of the last call may be incomplete: its reply ended in or just after it. Else ""."""
    reason = response.reply.stop_reason
    ends_in_call = bool(response.blocks) and response.blocks[-1].is_call
    return f"the reply ended early ({reason})" if ends_in_call and reason in CUT_REPLIES else ""


def run_tools(
    calls: Sequence[ToolCall],
    tools: Mapping[str, Tool],
    run: Callable[[ToolCall, Tool | None], Block] | None = None,
    *,
    cut: str = "",
) -> tuple[tuple[Block, ...], BaseException | None]:
    """A result for every call, in order; and the interrupt that ended them early, if any. `run` makes one
    call; `loop_hooks.py` passes one that also runs the hooks. With `cut` the last call is not made: half of
    a file must not replace the whole."""
    results: list[Block] = []
    run = run or run_tool
    for number, call in enumerate(calls):
        if cut and number == len(calls) - 1:
            results.append(_not_made(call, cut))
            break
        try:
            results.append(run(call, tools.get(call.tool)))
        except Exception as problem:
            message = f"{type(problem).__name__}: {problem}"[:MAX_ERROR_CHARACTERS]
            results.append(result_block(call.id, replace_lone_surrogates(message), is_error=True))
        except BaseException as interrupt:
            message = "Interrupted by the user before it was done."
            left = (result_block(each.id, message, is_error=True) for each in calls[number:])
            return (*results, *left), interrupt
    return tuple(results), None


def _not_made(call: ToolCall, cut: str) -> Block:
    message = (
        f"This call was not made: {cut}, so its input may be incomplete. Make it again; if it is long, in "
        "several shorter calls."
    )
    return result_block(call.id, message, is_error=True)


def run_tool(call: ToolCall, tool: Tool | None) -> Block:
    if tool is None or tool.run is None:
        return result_block(call.id, f"No tool named {call.tool!r} is available.", is_error=True)
    return to_result_block(ToolResult(call.id, tool.run(call.input)))


def to_result_block(result: ToolResult) -> Block:
    fields: dict[str, Any] = {"type": TOOL_RESULT, "tool_use_id": result.call, "content": result.content}
    return _said_block(fields | ({"is_error": True} if result.is_error else {}))


def _said_block(fields: Mapping[str, Any]) -> Block:
    """A block as it is kept: without breakpoints, because the session places its own and the API allows
    four."""
    if fields.get("type") == TOOL_RESULT and "content" in fields:
        fields = {**fields, "content": to_result_content(fields["content"])}
    return block_from_fields(without_cache_control(make_encodable(fields)))


def to_blocks(message: "str | Iterable[Mapping[str, Any] | Block | ToolResult]") -> tuple[Block, ...]:
    """A user message as content blocks; raises `UsageError` if it is none, or if the API would refuse it."""
    if isinstance(message, str):
        message = [{"type": "text", "text": message}]
    found = [_to_block(part) for part in _parts_of(message)]
    # The API refuses empty text blocks.
    return tuple(block for block in found if block.kind != "text" or fields_of(block).get("text"))


def _parts_of(message: object) -> Iterable[object]:
    if _has_parts(message):
        return message
    hint = "To go on without one: `send()`" if as_mapping(message) is None else "Put the block into a list"
    raise UsageError(f"A message is a text or a list of content blocks; this is {_shown(message)}. {hint}.")


def _has_parts(message: object) -> TypeGuard[Iterable[object]]:
    """A mapping and bytes can be iterated too, and an error would then name their parts instead of them."""
    return isinstance(message, Iterable) and not isinstance(message, Mapping | bytes | bytearray)


def _to_block(part: object) -> Block:
    if isinstance(part, Block):
        return part
    if isinstance(part, ToolResult):
        return to_result_block(part)
    fields = as_mapping(part)
    if fields is None:
        raise UsageError(f"A message is a text or a list of content blocks; this part is {_shown(part)}.")
    if flaw := find_flaw(fields):
        raise UsageError(
            f"The API does not take this content block: {flaw}. Nothing was recorded or sent; "
            f"correct the block {_shown(fields)}."
        )
    return _said_block(fields)


def _shown(value: object) -> str:
    """A value in a message: its beginning, as ASCII, so that every terminal can print it."""
    text = ascii(value)
    return text if len(text) <= MAX_SHOWN_CHARACTERS else f"{text[:MAX_SHOWN_CHARACTERS]}..."
