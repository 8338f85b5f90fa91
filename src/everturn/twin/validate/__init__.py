"""Validate a request: whether the API would accept it, and the error if not.

The checks run in this order: the shape of fields and blocks, the rules between messages, the limits of the
model. The tables of fields are in `params.py`, `blocks.py` and `tools.py`, in the notation of `grammar.py`.
`message_facts.py` caches what was found in each message. `twin/parse.py` handles invalid JSON and unknown
models, `twin/signatures.py` checks signatures.
"""

from everturn.twin.options import TwinOptions
from everturn.twin.tool_loading import check_references
from everturn.twin.validate import betas, combinations
from everturn.twin.validate.breakpoints import check_breakpoints
from everturn.twin.validate.grammar import invalid_field
from everturn.twin.validate.message_facts import RequestFacts, collect_facts, grammar
from everturn.twin.validate.messages import check_beta_requirements, check_messages
from everturn.twin.validate.model_rules import (
    check_effort,
    check_limits,
    check_sampling,
    check_thinking_first,
    check_thinking_mode,
    check_tool_choice,
    check_version,
    check_window,
)
from everturn.twin.validate.params import COUNT_TOKENS, MESSAGES
from everturn.twin.validate.reported_refusals import check_known_betas, check_samplers, check_schemas
from everturn.twin.validate.tools import check_tools
from everturn.twin.values import ParsedBlock, ParsedRequest, invalid_request

__all__ = ["check_window", "validate"]

_PARAMETERS = {"messages": grammar.shape(MESSAGES), "count_tokens": grammar.shape(COUNT_TOKENS)}
_MAX_SECTIONS = 100
_checked: dict[int, tuple[ParsedBlock, ...]] = {}


def validate(request: ParsedRequest, options: TwinOptions) -> None:
    """Raise the ApiError that the API would return, if the request is invalid."""
    check_version(request, options)
    check_known_betas(request, options)
    _check_parameters(request)
    facts = collect_facts(request)
    check_beta_requirements(request, facts, options)
    check_breakpoints(request, facts)
    check_messages(request, facts)
    _check_image_data(facts, options)
    _check_model(request)
    check_samplers(request, options)
    check_thinking_first(request, facts)
    combinations.check_prewarm(request)
    combinations.check_edits(request)
    combinations.check_compaction_blocks(request, facts)
    combinations.check_compaction(request, facts)
    combinations.check_thread(request)
    check_schemas(request, options)
    check_references(request)


def _check_parameters(request: ParsedRequest) -> None:
    _PARAMETERS[request.endpoint](request.body, "")
    betas.check_parameters(request)
    _check_once(request.tools, "tools")
    betas.check_tools(request)
    _check_once(request.system, "system")


def _check_image_data(facts: RequestFacts, options: TwinOptions) -> None:
    refused = {"broken_base64": options.broken_base64, "mislabeled_images": options.mislabeled_images}
    for index, found in facts.notable:
        if found.image_problem is not None:
            option, path, reason = found.image_problem
            if refused[option] == "refuse":
                raise invalid_field(f"messages.{index}.{path}", reason)


def _check_model(request: ParsedRequest) -> None:
    check_limits(request)
    check_sampling(request)
    check_effort(request)
    check_thinking_mode(request)
    check_tool_choice(request)


def _check_once(sent: tuple[ParsedBlock, ...], section: str) -> None:
    """Check a section once: the parser returns the same tuple for the same bytes.

    The table holds the tuple itself, so its id cannot belong to another object.
    """
    if _checked.get(id(sent)) is sent:
        return
    if section == "tools":
        for index, block in enumerate(sent):
            grammar["tool"](block.body, f"tools.{index}")
        check_tools(sent)
    else:
        _check_system(sent)
    if len(_checked) >= _MAX_SECTIONS:
        _checked.clear()
    _checked[id(sent)] = sent


def _check_system(sent: tuple[ParsedBlock, ...]) -> None:
    for index, block in enumerate(sent):
        if block.kind != "text":
            raise invalid_field(f"system.{index}.type", "Input should be 'text'")
        grammar["text_block"](block.body, f"system.{index}")
        if not block.body["text"].strip() and block.cache_ttl is None:
            raise invalid_request("system: text content blocks must be non-empty")
