"""What the model allows: output size, thinking, sampling, forced tools, fast mode.

Sources: api-facts 5 and 8. The models are in `measure/model_table.py`.
"""

from collections.abc import Sequence
from typing import Any

from everturn.history.blocks import THINKING
from everturn.measure.model_table import EFFORTS
from everturn.twin.options import TwinOptions
from everturn.twin.validate.grammar import EXTRA, invalid_field
from everturn.twin.validate.message_facts import MessageFacts, RequestFacts
from everturn.twin.values import ParsedRequest, invalid_request

VERSION_WITHOUT_SAMPLING = "2026-10-21"
VERSIONS = ("2023-01-01", "2023-06-01", VERSION_WITHOUT_SAMPLING)
_SAMPLING_DEFAULTS: dict[str, Any] = {"temperature": 1, "top_p": 1, "top_k": None}
_ADVICE = 'Use "thinking.type.adaptive" and "output_config.effort" to control thinking behavior.'
_THINKING_FIRST = (
    "When `thinking` is enabled, a final `assistant` message must start with a thinking block (preceeding "
    "the lastmost set of `tool_use` and `tool_result` blocks). We recommend you include thinking blocks from "
    "previous turns. To avoid this requirement, disable `thinking`. Please consult our documentation at "
    "https://docs.claude.com/en/docs/build-with-claude/extended-thinking"
)
_FORCED = ("any", "tool")


def check_version(request: ParsedRequest, options: TwinOptions) -> None:
    if not request.version and options.version_header == "optional":
        return
    if not request.version:
        raise invalid_request("anthropic-version: header is required")
    if request.version not in VERSIONS:
        raise invalid_request(f'anthropic-version: "{request.version}" is not a valid version')


def has_thinking_enabled(request: ParsedRequest) -> bool:
    """Whether the model thinks: the request asks for it, or says nothing and the model does by default."""
    mode = request.get_object("thinking").get("type")
    return request.model.thinks_by_default if mode is None else mode != "disabled"


def forces_a_tool(request: ParsedRequest) -> bool:
    return request.get_object("tool_choice").get("type") in _FORCED


def check_sampling(request: ParsedRequest) -> None:
    for name, default in _SAMPLING_DEFAULTS.items():
        if name not in request.body:
            continue
        if request.version >= VERSION_WITHOUT_SAMPLING:
            raise invalid_field(name, EXTRA)
        value = request.body[name]
        if value is not None and value != default and not request.model.sampling:
            raise invalid_request(f"`{name}` is deprecated for this model.")
    thinking = request.get_object("thinking").get("type")
    if thinking == "enabled" and request.body.get("temperature") not in (None, 1):
        raise invalid_request("`temperature` may only be set to 1 when thinking is enabled.")


def check_limits(request: ParsedRequest) -> None:
    wanted = request.body.get("max_tokens")
    if wanted is not None and wanted > request.model.max_output:
        raise invalid_field(
            "max_tokens",
            f"{wanted} > {request.model.max_output}, which is the maximum allowed number of output tokens "
            f"for {request.body['model']}",
        )
    for stop in request.body.get("stop_sequences") or ():
        if not stop.strip():
            raise invalid_field("stop_sequences", "each stop sequence must contain non-whitespace")
    if request.body.get("speed") == "fast" and request.model.fast is None:
        raise invalid_request(f'`speed`: "fast" is not supported for {request.body["model"]}.')


def check_effort(request: ParsedRequest) -> None:
    effort = request.get_object("output_config").get("effort")
    if effort is None or effort in request.model.efforts:
        return
    if not request.model.efforts:
        raise invalid_request("This model does not support the effort parameter.")
    levels = ", ".join(request.model.efforts)
    raise invalid_request(f"This model does not support effort level '{effort}'. Supported levels: {levels}.")


def check_thinking_mode(request: ParsedRequest) -> None:
    thinking = request.body.get("thinking")
    if not thinking:
        return
    mode, modes = thinking["type"], request.model.thinking
    if mode not in modes:
        if mode == "adaptive":
            raise invalid_request("adaptive thinking is not supported on this model")
        if mode == "enabled" and "adaptive" not in modes:
            raise invalid_request(f"'{request.body['model']}' does not support thinking.")
        raise invalid_request(f'"thinking.type.{mode}" is not supported for this model. {_advice(request)}')
    if mode == "enabled":
        _check_budget(request, thinking["budget_tokens"])
    if mode in ("disabled", "between_tools"):
        _check_unthinking_effort(request, mode)


def _advice(request: ParsedRequest) -> str:
    if "between_tools" in request.model.thinking:
        return 'Use "thinking.type.adaptive" or "thinking.type.between_tools" instead.'
    return _ADVICE


def _check_budget(request: ParsedRequest, budget: int) -> None:
    limit = request.body.get("max_tokens")
    interleaved = "interleaved-thinking-2025-05-14" in request.betas
    if limit is not None and limit > 0 and budget >= limit and not interleaved:
        raise invalid_request(
            "`max_tokens` must be greater than `thinking.budget_tokens`. Please consult our documentation at "
            "https://docs.claude.com/en/docs/build-with-claude/extended-thinking#max-tokens-and-context-window-size"
        )
    if forces_a_tool(request):
        raise invalid_request("Thinking may not be enabled when tool_choice forces tool use.")


def _check_unthinking_effort(request: ParsedRequest, mode: str) -> None:
    highest = request.model.unthinking_up_to
    if highest is None:
        return
    effort = request.get_object("output_config").get("effort") or request.model.default_effort
    if effort in EFFORTS and EFFORTS.index(effort) > EFFORTS.index(highest):
        raise invalid_request(
            f'"thinking.type.{mode}" is not supported for this model at effort "{effort}". '
            f'Lower "output_config.effort" to "{highest}" or less, or use "thinking.type.adaptive".'
        )


def check_thinking_first(request: ParsedRequest, facts: RequestFacts) -> None:
    """With `enabled`, an unfinished assistant turn must start with thinking (api-facts 5, 7)."""
    if request.get_object("thinking").get("type") != "enabled":
        return
    index = _unfinished_turn(request, facts.all)
    kinds = facts.all[index].kinds if index is not None else ()
    if not kinds or kinds[0] in THINKING:
        return
    raise invalid_field(
        f"messages.{index}.content.0.type",
        f"Expected `thinking` or `redacted_thinking`, but found `{kinds[0]}`. {_THINKING_FIRST}",
    )


def _unfinished_turn(request: ParsedRequest, facts: Sequence[MessageFacts]) -> int | None:
    """The first assistant message of the current turn, if only tool results followed it."""
    first = None
    for index in range(len(facts) - 1, -1, -1):
        role = request.messages[index].role
        if role == "assistant":
            first = index
        elif role == "user" and not facts[index].results:
            break
    return first


def check_tool_choice(request: ParsedRequest) -> None:
    choice = request.body.get("tool_choice")
    if not choice:
        return
    # `auto` equals a missing value, which needs no tools.
    if not request.tools and choice["type"] in _FORCED:
        raise invalid_request("tool_choice may only be specified while providing tools.")
    if choice["type"] in _FORCED and not request.model.forced_tool_choice:
        raise invalid_field("tool_choice", 'type "tool" and "any" are not supported for this model.')
    if choice["type"] == "tool" and all(tool.body.get("name") != choice["name"] for tool in request.tools):
        raise invalid_request(f"Tool '{choice['name']}' not found in provided tools")


def check_window(total_tokens: int, request: ParsedRequest) -> None:
    """Check that the prompt fits. From 4.5 on, only the output is truncated (api-facts 5)."""
    window = request.model.window
    if request.endpoint != "messages":
        return
    if total_tokens > window:
        raise invalid_request(f"prompt is too long: {total_tokens} tokens > {window} maximum")
    wanted = request.body.get("max_tokens", 0)
    if request.model.refuses_overflow and total_tokens + wanted > window:
        raise invalid_request(
            f"input length and `max_tokens` exceed context limit: {total_tokens} + {wanted} > {window}, "
            "decrease input length or `max_tokens` and try again"
        )
