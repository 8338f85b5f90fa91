"""Whether the API would take this request, and what it says if not.

Shape first, then what must hold between the messages, then what the model allows. The tables of fields are
`params.py`, `blocks.py` and `tools.py` in the notation of `grammar.py`; everything about a single message is
remembered in `message_facts.py`. Decoding and unknown models are `twin/parse.py`'s, signatures are
`twin/signatures.py`'s.
"""

from everturn.twin.options import TwinOptions
from everturn.twin.validate import betas, combinations
from everturn.twin.validate.breakpoints import check_breakpoints
from everturn.twin.validate.grammar import invalid_field
from everturn.twin.validate.message_facts import MessageFacts, collect_message_facts, grammar
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
from everturn.twin.validate.tools import check_tools
from everturn.twin.values import ParsedBlock, ParsedRequest, invalid_request

__all__ = ["check_window", "request_facts", "validate"]

_PARAMETERS = {"messages": grammar.shape(MESSAGES), "count_tokens": grammar.shape(COUNT_TOKENS)}
_SECTIONS_REMEMBERED = 2_000
_sections: dict[int, tuple[ParsedBlock, ...]] = {}


def validate(request: ParsedRequest, options: TwinOptions) -> None:
    """Raises the Refusal the API would answer with."""
    check_version(request, options)
    _check_parameters(request)
    facts = request_facts(request)
    check_beta_requirements(request, facts, options)
    check_breakpoints(request, facts)
    check_messages(request, facts)
    _check_model(request)
    check_thinking_first(request, facts)
    combinations.check_prewarm(request)
    combinations.check_edits(request)
    combinations.check_compaction_blocks(request, facts)
    combinations.check_compaction(request, facts)
    combinations.check_thread(request)


def request_facts(request: ParsedRequest) -> list[MessageFacts]:
    return [collect_message_facts(message, index) for index, message in enumerate(request.messages)]


def _check_parameters(request: ParsedRequest) -> None:
    _PARAMETERS[request.endpoint](request.body, "")
    betas.check_parameters(request)
    _once(request.tools, "tools")
    betas.check_tools(request)
    _once(request.system, "system")


def _check_model(request: ParsedRequest) -> None:
    check_limits(request)
    check_sampling(request)
    check_effort(request)
    check_thinking_mode(request)
    check_tool_choice(request)


def _once(sent: tuple[ParsedBlock, ...], section: str) -> None:
    """The parser returns the same tuple for the same bytes; `message_facts.py` says why its id is safe."""
    if _sections.get(id(sent)) is sent:
        return
    if section == "tools":
        for index, block in enumerate(sent):
            grammar["tool"](block.body, f"tools.{index}")
        check_tools(sent)
    else:
        _check_system(sent)
    if len(_sections) >= _SECTIONS_REMEMBERED:
        _sections.clear()
    _sections[id(sent)] = sent


def _check_system(sent: tuple[ParsedBlock, ...]) -> None:
    for index, block in enumerate(sent):
        if block.kind != "text":
            raise invalid_field(f"system.{index}.type", "Input should be 'text'")
        grammar["text_block"](block.body, f"system.{index}")
        if not block.body["text"].strip() and block.marker is None:
            raise invalid_request("system: text content blocks must be non-empty")
