"""Everything in the cache key of one call, small enough to keep and to compare (CB-1)."""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from everturn.history.blocks import text_of
from everturn.measure.outline import Preamble
from everturn.view.breakpoints import Breakpoints
from everturn.view.key_parameters import KeyParameters


class CacheKeySnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """Digests of large values; the values themselves if a person wants to see them."""

    model: str
    system: str
    system_chars: int
    markers: str
    tools: Mapping[str, str]
    tool_order: tuple[str, ...]
    speed: str
    betas: tuple[str, ...]
    thinking: str
    effort: str
    tool_choice: str
    extra: str
    scopes: tuple[str, ...] = ()
    # Of the messages. None if they were not read, as in observed calls.
    pictures: int | None = None
    cites: bool | None = None


class CacheKeyChange(msgspec.Struct, frozen=True):
    """One change in the key, as text."""

    part: str
    what: str


class PreambleDigests(NamedTuple):
    """Digests of system prompt and tools."""

    system: str
    system_chars: int
    tools: Mapping[str, str]
    tool_order: tuple[str, ...]


def digest_preamble(preamble: Preamble) -> PreambleDigests:
    """Takes time in proportion to the preamble."""
    return PreambleDigests(
        system=_digest(block.raw for block in preamble.system),
        system_chars=sum(len(text_of(block)) for block in preamble.system),
        tools={tool.tool: _digest([tool.raw]) for tool in preamble.tools},
        tool_order=tuple(tool.tool for tool in preamble.tools),
    )


def take_key_snapshot(
    model: str,
    preamble: Preamble,
    parameters: KeyParameters,
    breakpoints: Breakpoints,
    digests: PreambleDigests | None = None,
) -> CacheKeySnapshot:
    """`digests` are those of the preamble, if they are known."""
    system, system_chars, tools, tool_order = digests or digest_preamble(preamble)
    return CacheKeySnapshot(
        model=model,
        system=system,
        system_chars=system_chars,
        markers=_digest([_layout(preamble, breakpoints)]),
        tools=tools,
        tool_order=tool_order,
        speed=parameters.speed,
        betas=tuple(sorted(parameters.betas)),
        thinking=_json(parameters.thinking),
        effort=parameters.effort,
        tool_choice=_json(parameters.tool_choice),
        extra=_json(parameters.extra),
        scopes=preamble.scopes,
    )


def diff_key_snapshots(before: CacheKeySnapshot, after: CacheKeySnapshot) -> tuple[CacheKeyChange, ...]:
    """All differences, in the order in which the provider would notice them."""
    if before == after:
        return ()
    found: list[CacheKeyChange] = []
    if before.model != after.model:
        found.append(CacheKeyChange("model", f"model changed ({before.model} -> {after.model})"))
    if before.system != after.system:
        grown = after.system_chars - before.system_chars
        found.append(CacheKeyChange("system", f"system prompt changed ({grown:+} chars)"))
    found += _tool_changes(before, after)
    if (before.markers, before.scopes) != (after.markers, after.scopes):
        found.append(CacheKeyChange("markers", "breakpoints changed (scope or TTL)"))
    if before.betas != after.betas:
        found.append(CacheKeyChange("betas", f"betas changed ({_difference(before.betas, after.betas)})"))
    for part in ("speed", "thinking", "effort", "tool_choice", "extra"):
        old, new = getattr(before, part), getattr(after, part)
        if old != new:
            found.append(CacheKeyChange(part, f"{part} changed ({old or 'unset'} -> {new or 'unset'})"))
    return (*found, *_message_changes(before, after))


def _message_changes(before: CacheKeySnapshot, after: CacheKeySnapshot) -> list[CacheKeyChange]:
    """What messages have that is in the key of every message."""
    found: list[CacheKeyChange] = []
    if before.cites is not None and after.cites is not None and before.cites != after.cites:
        found.append(CacheKeyChange("citations", f"citations switched {'on' if after.cites else 'off'}"))
    if before.pictures is not None and after.pictures is not None and before.pictures != after.pictures:
        # Without numbers: reports count breaks by this text.
        how = "added" if before.pictures < after.pictures else "removed"
        found.append(CacheKeyChange("pictures", f"pictures {how}"))
    return found


def _tool_changes(before: CacheKeySnapshot, after: CacheKeySnapshot) -> list[CacheKeyChange]:
    if before.tool_order == after.tool_order and before.tools == after.tools:
        return []
    added = [name for name in after.tools if name not in before.tools]
    removed = [name for name in before.tools if name not in after.tools]
    edited = [
        name for name in after.tools if name in before.tools and after.tools[name] != before.tools[name]
    ]
    names = [
        *(f"+{name}" for name in added),
        *(f"-{name}" for name in removed),
        *(f"~{name}" for name in edited),
    ]
    what = ", ".join(names) or "different order"
    return [CacheKeyChange("tools", f"tools changed (+{len(added)}/-{len(removed)}): {what}")]


def _difference(before: Sequence[str], after: Sequence[str]) -> str:
    added = [f"+{name}" for name in after if name not in before]
    removed = [f"-{name}" for name in before if name not in after]
    return ", ".join([*added, *removed])


def _layout(preamble: Preamble, breakpoints: Breakpoints) -> bytes:
    """What has a breakpoint, and its lifetime. The position in the messages changes with every turn, and
    which breakpoints of the preamble are dropped follows from that: neither is part of the key.
    """
    lifetimes = {breakpoint.ttl for _, breakpoint in breakpoints.places}
    return msgspec.json.encode([sorted(lifetimes), preamble.marked])


def _digest(parts: Iterable[bytes]) -> str:
    made = blake2b(digest_size=12)
    for part in parts:
        made.update(part)
        made.update(b"\0")
    return made.hexdigest()


def _json(value: object) -> str:
    return msgspec.json.encode(value, order="sorted").decode() if value else ""


def prompt_text(preamble: Preamble) -> str:
    """The prompt in lines that can be compared: system texts, then the tools one by one."""
    tools = (msgspec.json.format(tool.raw, indent=1).decode() for tool in preamble.tools)
    return "\n".join([*(text_of(block) for block in preamble.system), *tools])
