"""The system prompt as named sections, static ones before dynamic ones (PC-1 to PC-4).

    attribution   varies per request     no breakpoint
    identity      short                  no breakpoint
    static        same for everybody     one block, its own breakpoint   scope global where that exists
    ───────────── the boundary ─────────
    dynamic       this session           one block, its own breakpoint   scope org

A section is computed once and then kept until `forget` (a /clear or a compaction). A section that is computed
for every request breaks the cache whenever its value changes, so registering one takes a long name and a
written reason.
"""

from collections.abc import Callable, Iterable
from typing import Final, Literal

import msgspec

from everturn.errors import UsageError
from everturn.history.blocks import Block, text_block
from everturn.measure.capabilities import Capabilities, Scope
from everturn.measure.outline import Preamble

SectionKind = Literal["static", "dynamic"]
Compute = Callable[[], str]
# How agents name the tools of MCP servers.
MCP_PREFIX: Final = "mcp__"


class PromptSection(msgspec.Struct, frozen=True):
    """One named part of the system prompt. `breaks_cache_because` is empty for a section that is kept."""

    name: str
    part: SectionKind
    compute: Compute
    breaks_cache_because: str = ""


class SystemPromptSections:
    """The registry. Sections appear in the prompt in the order of registration, within each part.

    `attribution` says for whom a request is made; a function is called for every request. Unless the provider
    excludes that block from its cache key, a value that changes breaks the cache. `identity` is one short
    line. Neither has its own breakpoint (PC-3).
    """

    def __init__(self, *, attribution: str | Compute = "", identity: str = "") -> None:
        self._attribution = attribution
        self.identity = identity
        self._sections: dict[str, PromptSection] = {}
        self._kept: dict[str, str] = {}

    def static(self, name: str, compute: Compute) -> None:
        """The same text for every user and every session."""
        self._register(PromptSection(name, "static", compute))

    def dynamic(self, name: str, compute: Compute) -> None:
        """A text specific to this session: environment, memory files, language, ..."""
        self._register(PromptSection(name, "dynamic", compute))

    def DANGEROUS_recomputed_every_request(self, name: str, compute: Compute, *, why: str) -> None:  # noqa: N802
        """A text that may change from request to request. Every change pays for the whole prefix again."""
        if len(why.split()) < 3:
            raise UsageError(
                f"Section {name!r} is computed for every request, and each change breaks the cache. "
                f"Give the reason for it in a sentence (not {why!r}), or register it with dynamic()."
            )
        self._register(PromptSection(name, "dynamic", compute, breaks_cache_because=why))

    @property
    def attribution(self) -> str:
        return self._attribution if isinstance(self._attribution, str) else self._attribution()

    def forget(self) -> None:
        """Compute every section again, after /clear or a compaction."""
        self._kept.clear()

    def texts(self, part: SectionKind) -> list[str]:
        found = [self._text(section) for section in self._sections.values() if section.part == part]
        return [text for text in found if text.strip()]

    @property
    def dangers(self) -> dict[str, str]:
        """The sections that may break the cache, with the registered reasons."""
        named = ((section.name, section.breaks_cache_because) for section in self._sections.values())
        return {name: why for name, why in named if why}

    def _register(self, section: PromptSection) -> None:
        if section.name in self._sections:
            raise UsageError(f"A section named {section.name!r} already exists. Choose another name.")
        self._sections[section.name] = section

    def _text(self, section: PromptSection) -> str:
        if section.breaks_cache_because:
            return section.compute()
        if section.name not in self._kept:
            self._kept[section.name] = section.compute()
        return self._kept[section.name]


class Scoped(msgspec.Struct, frozen=True):
    """A block of the system prompt; without a scope it has no breakpoint."""

    block: Block
    scope: Scope | None


def system_blocks(
    sections: SystemPromptSections, *, capabilities: Capabilities, tools: Iterable[str] = ()
) -> tuple[Scoped, ...]:
    """The default prompt in up to four blocks (PC-3). Tools come before the system prompt, and MCP tools
    differ per user: with one among `tools`, no block is global.
    """
    is_shared = "global" in capabilities.scopes and not any(name.startswith(MCP_PREFIX) for name in tools)
    shared: Scope = "global" if is_shared else "org"
    parts: list[tuple[str, Scope | None]] = [
        (sections.attribution, None),
        (sections.identity, None),
        ("\n\n".join(sections.texts("static")), shared),
        ("\n\n".join(sections.texts("dynamic")), "org"),
    ]
    return tuple(Scoped(text_block(text), scope) for text, scope in parts if text.strip())


def own_system_prompt(text: str) -> tuple[Scoped, ...]:
    """A caller's own prompt replaces the default one completely: no split, nothing global (PC-4)."""
    return (Scoped(text_block(text), "org"),) if text.strip() else ()


def make_preamble(tools: tuple[Block, ...], system: tuple[Scoped, ...]) -> Preamble:
    """Tools and system as one value. Tools are sorted by name for stable bytes (PC-6)."""
    ordered = tuple(sorted(tools, key=lambda tool: tool.tool))
    marked = tuple(at for at, part in enumerate(system) if part.scope)
    scopes: tuple[Scope, ...] = tuple(part.scope for part in system if part.scope is not None)
    return Preamble(ordered, tuple(part.block for part in system), marked, scopes)
