"""Validate `cache_control`: where it is allowed, how often, and the order of TTLs (api-facts 1.1, 1.2, 1.4).

`twin/request_layout.py` applies the breakpoints to the cache.
"""

from collections.abc import Iterator, Sequence

from everturn.measure.prefix_cache import Ttl
from everturn.twin.request_layout import NO_BREAKPOINT_KINDS, is_turn_scoped
from everturn.twin.validate.grammar import invalid_field
from everturn.twin.validate.message_facts import RequestBreakpoint, RequestFacts
from everturn.twin.values import ParsedBlock, ParsedRequest, invalid_request

MAX_BREAKPOINTS = 4


def check_breakpoints(request: ParsedRequest, facts: RequestFacts) -> None:
    _check_empty(request, facts)
    explicit = [*_section("tools", request.tools), *_section("system", request.system), *_in_messages(facts)]
    automatic = _automatic(request)
    _check_ttl_order([*explicit, *automatic])
    found = len(explicit) + len(automatic)
    if found > MAX_BREAKPOINTS:
        raise invalid_request(
            f"A maximum of {MAX_BREAKPOINTS} blocks with cache_control may be provided. Found {found}."
        )


def _section(name: str, sent: Sequence[ParsedBlock]) -> Iterator[RequestBreakpoint]:
    for index, block in enumerate(sent):
        if block.cache_ttl is not None:
            yield RequestBreakpoint(f"{name}.{index}", block.cache_ttl)


def _in_messages(facts: RequestFacts) -> Iterator[RequestBreakpoint]:
    for index, found in facts.notable:
        if found.breakpoints:
            for breakpoint in found.breakpoints:
                yield RequestBreakpoint(f"messages.{index}.{breakpoint.path}", breakpoint.ttl)


def _check_empty(request: ParsedRequest, facts: RequestFacts) -> None:
    reason = "cache_control cannot be set for empty text blocks"
    for index, block in enumerate(request.system):
        if block.cache_ttl is not None and not block.body["text"].strip():
            raise invalid_field(f"system.{index}", reason)
    for index, found in facts.notable:
        if found.empty_with_breakpoint is not None:
            raise invalid_field(f"messages.{index}.{found.empty_with_breakpoint}", reason)


def _check_ttl_order(breakpoints: Sequence[RequestBreakpoint]) -> None:
    short_seen = False
    for breakpoint in breakpoints:
        if breakpoint.ttl == "1h" and short_seen:
            where = "cache_control.ttl" if not breakpoint.path else f"{breakpoint.path}.cache_control.ttl"
            raise invalid_field(
                where,
                "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block. "
                "Note that blocks are processed in the following order: `tools`, `system`, `messages`.",
            )
        short_seen = short_seen or breakpoint.ttl == "5m"


def _automatic(request: ParsedRequest) -> list[RequestBreakpoint]:
    """The breakpoint of the top-level `cache_control`; none if the last eligible block has an equal one."""
    control = request.body.get("cache_control")
    if control is None:
        return []
    ttl: Ttl = control.get("ttl", "5m")
    last = next(_eligible_from_end(request), None)
    if last is None or last.cache_ttl == ttl:
        return []
    if last.cache_ttl is not None:
        raise invalid_field(
            "cache_control",
            f"ttl='{ttl}' conflicts with the ttl='{last.cache_ttl}' cache_control of the last cacheable "
            "block.",
        )
    return [RequestBreakpoint("", ttl)]


def _eligible_from_end(request: ParsedRequest) -> Iterator[ParsedBlock]:
    for message in reversed(request.messages):
        if not is_turn_scoped(message):
            yield from filter(_is_eligible, reversed(message.blocks))
    yield from filter(_is_eligible, reversed(request.system))
    yield from (tool for tool in reversed(request.tools) if not tool.body.get("defer_loading"))


def _is_eligible(block: ParsedBlock) -> bool:
    return block.kind not in NO_BREAKPOINT_KINDS and not (
        block.kind == "text" and not block.body["text"].strip()
    )
