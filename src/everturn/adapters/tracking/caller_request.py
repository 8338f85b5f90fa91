"""A caller's request, read from its body.

everturn changes only the messages and the cache breakpoints. System prompt, tools and all other fields are
sent as they came; the parameters of the cache key are read to notice changes. A request that uses the API's
own context management, or that could not be rebuilt exactly, gives an `UnsupportedRequest` with the reason.

Server-side threads are resolved here: a request of a thread has only the new messages and names the reply
that they follow (api-facts 2.6). The earlier messages come from the tracked conversation.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

import msgspec

from everturn.adapters.tracking.chain import (
    START,
    build_chain,
    digest,
    is_list,
    is_mapping,
    is_object,
    without_cache_control,
)
from everturn.history.blocks import Block, block_from_fields, text_block
from everturn.measure.capabilities import Scope
from everturn.measure.outline import Preamble
from everturn.view.key_parameters import KeyParameters, TtlChoice
from everturn.wire.anthropic import tool_block

# Who places `cache_control`: everturn, or the caller (a framework that knows its own models).
BreakpointOwner = Literal["everturn", "caller"]

# A caller that sends one of these uses the API's own context management.
CALLER_MANAGED_FIELDS: Final = ("context_management", "compaction")
# Fields that are read separately; every other field is sent as it came.
_READ: Final = frozenset(
    {"model", "messages", "system", "tools", "thinking", "tool_choice", "speed", "output_config", "stream",
     "thread"}
)  # fmt: skip


class UnsupportedRequest(msgspec.Struct, frozen=True):
    """Why a request is sent unchanged."""

    why: str


class KnownPrefix(NamedTuple):
    """The known part of a conversation, up to and including a reply."""

    chain: Sequence[bytes] = ()
    preamble: Preamble = Preamble()
    preamble_digest: bytes = b""


class CallerRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request of a caller. `chain` has a link for each message; `fingerprint` identifies all of it. In a
    request of a thread only the new messages have content: earlier ones are empty, but have links."""

    model: str
    messages: Sequence[Mapping[str, Any]]
    preamble: Preamble
    parameters: KeyParameters
    fields: Mapping[str, Any]
    breakpoints: BreakpointOwner
    chain: tuple[bytes, ...]
    preamble_digest: bytes
    fingerprint: bytes
    # Whether the caller set a breakpoint in its messages; always False if everturn places them.
    marks_messages: bool = False


def read_request(
    body: Mapping[str, Any],
    *,
    betas: Sequence[str] = (),
    breakpoints: BreakpointOwner = "everturn",
    find_prefix: Callable[[str], KnownPrefix | None] = lambda _: None,
) -> CallerRequest | UnsupportedRequest:
    """`betas` are those in its header; `find_prefix` finds a conversation by the id of a reply in it."""
    before = KnownPrefix()
    if (reply := _read_previous_reply(body)) is not None:
        found = find_prefix(reply)
        if found is None:
            return UnsupportedRequest("it continues a thread that everturn has not seen")
        before = found
    if why := _find_unsupported(body, before):
        return UnsupportedRequest(why)
    return _read(body, tuple(betas), breakpoints, before)


def _read_previous_reply(body: Mapping[str, Any]) -> str | None:
    thread = body.get("thread")
    if not is_mapping(thread) or thread.get("type") != "continue":
        return None
    return str(thread.get("previous_message_id"))


def _read(
    body: Mapping[str, Any], betas: tuple[str, ...], breakpoints: BreakpointOwner, before: KnownPrefix
) -> CallerRequest:
    new: list[dict[str, Any]] = body["messages"]
    chain = (*before.chain, *build_chain(new, before.chain[-1] if before.chain else START))
    system, tools = _system(body), body.get("tools") or ()
    has_preamble = not before.chain or bool(system or tools)
    preamble = _read_preamble(system, tools, breakpoints) if has_preamble else before.preamble
    preamble_digest = (
        digest(without_cache_control(system), without_cache_control(tools))
        if has_preamble
        else before.preamble_digest
    )
    fields = {name: value for name, value in body.items() if name not in _READ and value is not None}
    if breakpoints == "everturn":
        fields.pop("cache_control", None)
    parameters = _parameters(body, betas)
    empty: dict[str, Any] = {"role": "assistant", "content": []}
    return CallerRequest(
        model=body["model"],
        messages=[*[empty] * len(before.chain), *new],
        preamble=preamble,
        parameters=parameters,
        fields=fields,
        breakpoints=breakpoints,
        chain=chain,
        preamble_digest=preamble_digest,
        fingerprint=digest(chain[-1], body["model"], preamble_digest, parameters, fields, breakpoints),
        marks_messages=breakpoints == "caller" and any(_breakpoints_in(each.get("content")) for each in new),
    )


def read_message_blocks(message: Mapping[str, Any]) -> tuple[Block, ...]:
    """The blocks of a message without breakpoints, because those are placed anew for every request."""
    content = message.get("content")
    if isinstance(content, str):
        return (text_block(content),)
    return tuple(block_from_fields(without_cache_control(block)) for block in content or ())


def _find_unsupported(body: Mapping[str, Any], before: KnownPrefix) -> str:
    used = [name for name in CALLER_MANAGED_FIELDS if body.get(name) is not None]
    if used:
        return f"it uses {', '.join(used)}, the API's own context management"
    messages = body.get("messages")
    if not isinstance(body.get("model"), str) or not is_list(messages):
        return "it has no model or no messages"
    if not messages and not before.chain:
        return "it has no model or no messages"
    if body.get("max_tokens") == 0:
        return "it only warms the cache (max_tokens is 0)"
    if not all(_is_plain(message) for message in messages):
        return "one of its messages has an unsupported role, field or content"
    if not isinstance(body.get("system") or "", str | list):
        return "its system prompt is neither a string nor a list of blocks"
    return ""


def _is_plain(message: Any) -> bool:
    if not is_object(message) or message.get("role") not in ("user", "assistant"):
        return False
    content = message.get("content")
    # Other fields of a message (its own effort, a time to be cleared at) could not be sent again.
    if message.keys() - {"role", "content"}:
        return False
    return isinstance(content, str) or (is_list(content) and all(map(is_object, content)))


def _system(body: Mapping[str, Any]) -> list[Any]:
    system: Any = body.get("system") or []
    return [{"type": "text", "text": system}] if isinstance(system, str) else system


def _read_preamble(system: Sequence[Any], tools: Sequence[Any], breakpoints: BreakpointOwner) -> Preamble:
    """Tools and system prompt in the caller's order. The caller's breakpoints in the system prompt are kept:
    they separate parts that stay the same for longer."""
    if breakpoints == "caller":
        return Preamble(tuple(map(tool_block, tools)), tuple(map(block_from_fields, system)))
    scopes: dict[int, Scope] = {len(system) - 1: "org"} if system else {}
    for at, block in enumerate(system):
        if breakpoint_ := block.get("cache_control"):
            scopes[at] = "global" if breakpoint_.get("scope") == "global" else "org"
    return Preamble(
        tools=tuple(tool_block(without_cache_control(tool)) for tool in tools),
        system=tuple(block_from_fields(without_cache_control(block)) for block in system),
        marked=tuple(sorted(scopes)),
        scopes=tuple(scopes[at] for at in sorted(scopes)),
    )


def _parameters(body: Mapping[str, Any], betas: Sequence[str]) -> KeyParameters:
    config = dict(body.get("output_config") or {})
    effort = config.pop("effort", None) or ""
    return KeyParameters(
        _lifetime(body),
        betas=tuple(betas),
        thinking=body.get("thinking"),
        effort=effort,
        speed=body.get("speed") or "",
        tool_choice=body.get("tool_choice"),
        extra={"output_config": config} if config else {},
    )


def _lifetime(body: Mapping[str, Any]) -> TtlChoice:
    """One hour for all breakpoints if the caller asks for it in any of its own."""
    holders = [body, *_system(body), *(body.get("tools") or ())]
    found = [each["cache_control"] for each in holders if isinstance(each.get("cache_control"), Mapping)]
    found += [each for message in body["messages"] for each in _breakpoints_in(message.get("content"))]
    if any(each.get("ttl") == "1h" for each in found):
        return TtlChoice("1h", "the caller's own breakpoints ask for an hour")
    return TtlChoice("5m", "the caller asks for no other lifetime")


def _breakpoints_in(content: Any) -> list[dict[str, Any]]:
    blocks = content if is_list(content) else []
    found = [block.get("cache_control") for block in blocks]
    return [each for each in found if is_object(each)]
