"""What a caller asks for, read from the body of its request: the part that is ours, and the rest.

Ours are the messages and where the markers stand. Everything else leaves as it came: system and tools block
by block, the parameters of the cache key so that the engine can tell when they change, all other fields as
they are. A request that uses the API's own context features is none of our business, nor is one that we
could not spell again; `NotOurs` says why.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from everturn.adapters.shadow.chain import chain_of, digest, unmarked
from everturn.history.blocks import Block, block_from_fields, text_block
from everturn.measure.capabilities import Scope
from everturn.measure.outline import Head
from everturn.measure.prefix_cache import Ttl
from everturn.view.lifetime import KeyParameters, Lifetime
from everturn.wire.anthropic import tool_block

Markers = Literal["ours", "the caller's"]

# Whoever sends one of these manages the context with the API's own means.
ITS_OWN: Final = ("context_management", "compaction", "thread")
# Read into places of their own; every other field passes as it is.
_READ: Final = frozenset(
    {"model", "messages", "system", "tools", "thinking", "tool_choice", "speed", "output_config", "stream"}
)


class NotOurs(msgspec.Struct, frozen=True):
    """Why a request passes untouched."""

    why: str


class CallerRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request of a caller. `chain` has a link for each message; `fingerprint` stands for all of it."""

    model: str
    messages: Sequence[Mapping[str, Any]]
    head: Head
    parameters: KeyParameters
    fields: Mapping[str, Any]
    markers: Markers
    chain: tuple[bytes, ...]
    head_digest: bytes
    fingerprint: bytes
    # Whether the caller marked a block of its messages; only asked where markers are the caller's.
    marks_messages: bool = False


def read_request(
    body: Mapping[str, Any], *, betas: Sequence[str] = (), markers: Markers = "ours"
) -> CallerRequest | NotOurs:
    """`betas` are those of its header."""
    if why := _why_not(body):
        return NotOurs(why)
    messages = body["messages"]
    chain, system, tools = chain_of(messages), _system(body), body.get("tools") or ()
    fields = {name: value for name, value in body.items() if name not in _READ and value is not None}
    if markers == "ours":
        fields.pop("cache_control", None)
    head_digest = digest(unmarked(system), unmarked(tools))
    parameters = _parameters(body, betas)
    return CallerRequest(
        model=body["model"],
        messages=messages,
        head=_head(system, tools, markers),
        parameters=parameters,
        fields=fields,
        markers=markers,
        chain=chain,
        head_digest=head_digest,
        fingerprint=digest(chain[-1], body["model"], head_digest, parameters, fields, markers),
        marks_messages=markers == "the caller's" and any(_markers_in(m.get("content")) for m in messages),
    )


def blocks_of(message: Mapping[str, Any]) -> tuple[Block, ...]:
    """The blocks of a message, without markers: where those stand is decided for every request anew."""
    content = message.get("content")
    if isinstance(content, str):
        return (text_block(content),)
    return tuple(block_from_fields(unmarked(block)) for block in content or ())


def _why_not(body: Mapping[str, Any]) -> str:
    used = [name for name in ITS_OWN if body.get(name) is not None]
    if used:
        return f"it uses {', '.join(used)} of the API itself"
    messages = body.get("messages")
    if not isinstance(body.get("model"), str) or not isinstance(messages, list) or not messages:
        return "it has no model or no messages"
    if body.get("max_tokens") == 0:
        return "it only warms the cache"
    if not all(_is_plain(message) for message in messages):
        return "it has a message that is neither the user's nor the assistant's"
    if not isinstance(body.get("system") or "", str | list):
        return "its system prompt is neither text nor blocks"
    return ""


def _is_plain(message: Any) -> bool:
    if not isinstance(message, Mapping) or message.get("role") not in ("user", "assistant"):
        return False
    content = message.get("content")
    blocks = isinstance(content, list) and all(isinstance(block, Mapping) for block in content)
    # What else a message carries (an effort of its own, a time to be cleared at) we could not send again.
    return (blocks or isinstance(content, str)) and set(message) <= {"role", "content"}


def _system(body: Mapping[str, Any]) -> list[Any]:
    system = body.get("system") or []
    return [{"type": "text", "text": system}] if isinstance(system, str) else system


def _head(system: Sequence[Any], tools: Sequence[Any], markers: Markers) -> Head:
    """In the caller's order. Its markers in the system prompt say where parts end that live longer."""
    if markers == "the caller's":
        return Head(tuple(map(tool_block, tools)), tuple(map(block_from_fields, system)))
    scopes: dict[int, Scope] = {len(system) - 1: "org"} if system else {}
    for at, block in enumerate(system):
        if marker := block.get("cache_control"):
            scopes[at] = "global" if marker.get("scope") == "global" else "org"
    return Head(
        tools=tuple(tool_block(unmarked(tool)) for tool in tools),
        system=tuple(block_from_fields(unmarked(block)) for block in system),
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


def _lifetime(body: Mapping[str, Any]) -> Lifetime:
    """A caller that asks for an hour anywhere gets it everywhere."""
    held = [body, *_system(body), *(body.get("tools") or ())]
    found = [each["cache_control"] for each in held if isinstance(each.get("cache_control"), Mapping)]
    found += [marker for message in body["messages"] for marker in _markers_in(message.get("content"))]
    ttl: Ttl = "1h" if any(marker.get("ttl") == "1h" for marker in found) else "5m"
    return Lifetime(ttl, "the caller's own markers ask for it" if found else "the usual one")


def _markers_in(content: Any) -> list[Mapping[str, Any]]:
    blocks = content if isinstance(content, list) else []
    found = [block.get("cache_control") for block in blocks]
    return [marker for marker in found if isinstance(marker, Mapping)]
