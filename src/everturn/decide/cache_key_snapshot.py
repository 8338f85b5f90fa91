"""Everything in the cache key, as one call had it, small enough to keep and to compare (CB-1)."""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b

import msgspec

from everturn.history.blocks import text_of
from everturn.measure.outline import Preamble
from everturn.view.breakpoints import Breakpoints
from everturn.view.key_parameters import KeyParameters


class CacheKeySnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """Digests where the thing itself is large; the thing itself where a person wants to see it."""

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


class CacheKeyChange(msgspec.Struct, frozen=True):
    """One thing in the key that is not what it was, in words."""

    part: str
    what: str


def take_key_snapshot(
    model: str, head: Preamble, parameters: KeyParameters, marks: Breakpoints
) -> CacheKeySnapshot:
    """Costs the head, never the conversation."""
    return CacheKeySnapshot(
        model=model,
        system=_digest(block.raw for block in head.system),
        system_chars=sum(len(text_of(block)) for block in head.system),
        markers=_digest([_layout(head, marks)]),
        tools={tool.tool: _digest([tool.raw]) for tool in head.tools},
        tool_order=tuple(tool.tool for tool in head.tools),
        speed=parameters.speed,
        betas=tuple(sorted(parameters.betas)),
        thinking=_json(parameters.thinking),
        effort=parameters.effort,
        tool_choice=_json(parameters.tool_choice),
        extra=_json(parameters.extra),
        scopes=head.scopes,
    )


def diff_key_snapshots(before: CacheKeySnapshot, after: CacheKeySnapshot) -> tuple[CacheKeyChange, ...]:
    """What differs, each named; in the order in which the provider would notice."""
    found: list[CacheKeyChange] = []
    if before.model != after.model:
        found.append(CacheKeyChange("model", f"model changed ({before.model} -> {after.model})"))
    if before.system != after.system:
        grown = after.system_chars - before.system_chars
        found.append(CacheKeyChange("system", f"system prompt changed ({grown:+} chars)"))
    found += _tool_changes(before, after)
    if (before.markers, before.scopes) != (after.markers, after.scopes):
        found.append(CacheKeyChange("markers", "markers changed (scope or TTL)"))
    if before.betas != after.betas:
        found.append(CacheKeyChange("betas", f"betas changed ({_difference(before.betas, after.betas)})"))
    for part in ("speed", "thinking", "effort", "tool_choice", "extra"):
        old, new = getattr(before, part), getattr(after, part)
        if old != new:
            found.append(CacheKeyChange(part, f"{part} changed ({old or 'unset'} -> {new or 'unset'})"))
    return tuple(found)


def _tool_changes(before: CacheKeySnapshot, after: CacheKeySnapshot) -> list[CacheKeyChange]:
    added = [name for name in after.tools if name not in before.tools]
    removed = [name for name in before.tools if name not in after.tools]
    edited = [
        name for name in after.tools if name in before.tools and after.tools[name] != before.tools[name]
    ]
    if not (added or removed or edited) and before.tool_order == after.tool_order:
        return []
    names = [
        *(f"+{name}" for name in added),
        *(f"-{name}" for name in removed),
        *(f"~{name}" for name in edited),
    ]
    what = ", ".join(names) or "the order is another"
    return [CacheKeyChange("tools", f"tools changed (+{len(added)}/-{len(removed)}): {what}")]


def _difference(before: Sequence[str], after: Sequence[str]) -> str:
    added = [f"+{name}" for name in after if name not in before]
    removed = [f"-{name}" for name in before if name not in after]
    return ", ".join([*added, *removed])


def _layout(head: Preamble, marks: Breakpoints) -> bytes:
    """What is marked, and for how long. Where in the messages a marker stands changes with every turn, and
    which of the head's markers had to give way follows from that: neither is part of the key."""
    lifetimes = {marker.ttl for _, marker in marks.places}
    return msgspec.json.encode([sorted(lifetimes), head.marked])


def _digest(parts: Iterable[bytes]) -> str:
    made = blake2b(digest_size=12)
    for part in parts:
        made.update(part)
        made.update(b"\0")
    return made.hexdigest()


def _json(value: object) -> str:
    return msgspec.json.encode(value, order="sorted").decode() if value else ""


def prompt_text(head: Preamble) -> str:
    """The prompt in lines that can be compared: system texts, then tools one by one."""
    tools = (msgspec.json.format(tool.raw, indent=1).decode() for tool in head.tools)
    return "\n".join([*(text_of(block) for block in head.system), *tools])
