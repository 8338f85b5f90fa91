"""What a caller asks for, read from the body of its request: the part that is ours, and the rest.

Ours are the messages and where the markers stand. Everything else leaves as it came: system and tools block
by block, the parameters of the cache key so that the engine can tell when they change, all other fields as
they are. A request that uses the API's own context features is none of our business, nor is one that we
could not spell again; `NotOurs` says why.

A thread that the server would hold for the caller is held here instead, since the conversation is: its
requests bring new messages alone, and name the reply that they follow (api-facts 2.6).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

import msgspec

from everturn.adapters.tracking.chain import START, build_chain, digest, without_cache_control
from everturn.history.blocks import Block, block_from_fields, text_block
from everturn.measure.capabilities import Scope
from everturn.measure.outline import Preamble
from everturn.view.key_parameters import KeyParameters, TtlChoice
from everturn.wire.anthropic import tool_block

BreakpointOwner = Literal["ours", "the caller's"]

# Whoever sends one of these manages the context with the API's own means.
CALLER_MANAGED_FIELDS: Final = ("context_management", "compaction")
# Read into places of their own; every other field passes as it is.
_READ: Final = frozenset(
    {"model", "messages", "system", "tools", "thinking", "tool_choice", "speed", "output_config", "stream",
     "thread"}
)  # fmt: skip


class UnsupportedRequest(msgspec.Struct, frozen=True):
    """Why a request passes untouched."""

    why: str


class KnownPrefix(NamedTuple):
    """What is known of a conversation up to some reply."""

    chain: Sequence[bytes] = ()
    head: Preamble = Preamble()
    preamble_digest: bytes = b""


class CallerRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request of a caller. `chain` has a link for each message; `fingerprint` stands for all of it. Of a
    thread only the new messages are given: those before them have links, and nothing in them."""

    model: str
    messages: Sequence[Mapping[str, Any]]
    head: Preamble
    parameters: KeyParameters
    fields: Mapping[str, Any]
    markers: BreakpointOwner
    chain: tuple[bytes, ...]
    preamble_digest: bytes
    fingerprint: bytes
    # Whether the caller marked a block of its messages; only asked where markers are the caller's.
    marks_messages: bool = False


def read_request(
    body: Mapping[str, Any],
    *,
    betas: Sequence[str] = (),
    markers: BreakpointOwner = "ours",
    begun: Callable[[str], KnownPrefix | None] = lambda _: None,
) -> CallerRequest | UnsupportedRequest:
    """`betas` are those of its header; `begun` knows conversations by a reply in them."""
    before = KnownPrefix()
    if (follows := _follows(body)) is not None:
        found = begun(follows)
        if found is None:
            return UnsupportedRequest("it goes on with a thread that we do not hold")
        before = found
    if why := _why_not(body, before):
        return UnsupportedRequest(why)
    return _read(body, tuple(betas), markers, before)


def _follows(body: Mapping[str, Any]) -> str | None:
    thread = body.get("thread")
    if not isinstance(thread, Mapping) or thread.get("type") != "continue":
        return None
    return str(thread.get("previous_message_id"))


def _read(
    body: Mapping[str, Any], betas: tuple[str, ...], markers: BreakpointOwner, before: KnownPrefix
) -> CallerRequest:
    new = body["messages"]
    chain = (*before.chain, *build_chain(new, before.chain[-1] if before.chain else START))
    system, tools = _system(body), body.get("tools") or ()
    has_head = not before.chain or bool(system or tools)
    head = _read_preamble(system, tools, markers) if has_head else before.head
    head_digest = (
        digest(without_cache_control(system), without_cache_control(tools))
        if has_head
        else before.preamble_digest
    )
    fields = {name: value for name, value in body.items() if name not in _READ and value is not None}
    if markers == "ours":
        fields.pop("cache_control", None)
    parameters = _parameters(body, betas)
    return CallerRequest(
        model=body["model"],
        messages=[*({"role": "assistant", "content": []},) * len(before.chain), *new],
        head=head,
        parameters=parameters,
        fields=fields,
        markers=markers,
        chain=chain,
        preamble_digest=head_digest,
        fingerprint=digest(chain[-1], body["model"], head_digest, parameters, fields, markers),
        marks_messages=markers == "the caller's" and any(_markers_in(each.get("content")) for each in new),
    )


def read_message_blocks(message: Mapping[str, Any]) -> tuple[Block, ...]:
    """The blocks of a message, without markers: where those stand is decided for every request anew."""
    content = message.get("content")
    if isinstance(content, str):
        return (text_block(content),)
    return tuple(block_from_fields(without_cache_control(block)) for block in content or ())


def _why_not(body: Mapping[str, Any], before: KnownPrefix) -> str:
    used = [name for name in CALLER_MANAGED_FIELDS if body.get(name) is not None]
    if used:
        return f"it uses {', '.join(used)} of the API itself"
    messages = body.get("messages")
    if not isinstance(body.get("model"), str) or not isinstance(messages, list):
        return "it has no model or no messages"
    if not messages and not before.chain:
        return "it has no model or no messages"
    if body.get("max_tokens") == 0:
        return "it only warms the cache"
    if not all(_is_plain(message) for message in messages):
        return "it has a message that is neither the user's nor the assistant's"
    if not isinstance(body.get("system") or "", str | list):
        return "its system prompt is neither text nor blocks"
    return ""


def _is_plain(message: Any) -> bool:
    if not isinstance(message, dict) or message.get("role") not in ("user", "assistant"):
        return False
    content = message.get("content")
    # What else a message carries (an effort of its own, a time to be cleared at) we could not send again.
    if message.keys() - {"role", "content"}:
        return False
    return isinstance(content, str) or (
        isinstance(content, list) and all(isinstance(block, dict) for block in content)
    )


def _system(body: Mapping[str, Any]) -> list[Any]:
    system = body.get("system") or []
    return [{"type": "text", "text": system}] if isinstance(system, str) else system


def _read_preamble(system: Sequence[Any], tools: Sequence[Any], markers: BreakpointOwner) -> Preamble:
    """In the caller's order. Its markers in the system prompt say where parts end that live longer."""
    if markers == "the caller's":
        return Preamble(tuple(map(tool_block, tools)), tuple(map(block_from_fields, system)))
    scopes: dict[int, Scope] = {len(system) - 1: "org"} if system else {}
    for at, block in enumerate(system):
        if marker := block.get("cache_control"):
            scopes[at] = "global" if marker.get("scope") == "global" else "org"
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
    """A caller that asks for an hour anywhere gets it everywhere."""
    held = [body, *_system(body), *(body.get("tools") or ())]
    found = [each["cache_control"] for each in held if isinstance(each.get("cache_control"), Mapping)]
    found += [marker for message in body["messages"] for marker in _markers_in(message.get("content"))]
    if any(marker.get("ttl") == "1h" for marker in found):
        return TtlChoice("1h", "the caller's own markers ask for an hour")
    return TtlChoice("5m", "the caller asks for nothing else")


def _markers_in(content: Any) -> list[Mapping[str, Any]]:
    blocks = content if isinstance(content, list) else []
    found = [block.get("cache_control") for block in blocks]
    return [marker for marker in found if isinstance(marker, dict)]
