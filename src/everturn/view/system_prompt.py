"""The system prompt as named sections, static ones before dynamic ones (PC-1 to PC-4).

    attribution   varies per request     no marker
    identity      short                  no marker
    static        same for everybody     one block, its own marker   scope global where that exists
    ───────────── the boundary ─────────
    dynamic       this session           one block, its own marker   scope org

A section is computed once and then kept until `forget` (a /clear or a compaction). One that is computed
anew for every request breaks the cache whenever its value changes, so registering such a section takes a
long name and a written reason.
"""

from collections.abc import Callable
from typing import Literal

import msgspec

from everturn.errors import UsageError
from everturn.history.blocks import Block, text_block
from everturn.measure.capabilities import Capabilities, Scope
from everturn.measure.outline import Preamble

SectionKind = Literal["static", "dynamic"]
Compute = Callable[[], str]


class PromptSection(msgspec.Struct, frozen=True):
    """One named piece of the system prompt. `breaks_cache_because` is empty for a section that is kept."""

    name: str
    part: SectionKind
    compute: Compute
    breaks_cache_because: str = ""


class SystemPromptSections:
    """The registry. Order of registration is order in the prompt, within each part."""

    def __init__(self) -> None:
        self._sections: dict[str, PromptSection] = {}
        self._kept: dict[str, str] = {}

    def static(self, name: str, compute: Compute) -> None:
        """The same text for every user and every session."""
        self._register(PromptSection(name, "static", compute))

    def dynamic(self, name: str, compute: Compute) -> None:
        """A text of this session: environment, memory files, language, ..."""
        self._register(PromptSection(name, "dynamic", compute))

    def DANGEROUS_recomputed_every_request(self, name: str, compute: Compute, *, why: str) -> None:  # noqa: N802
        """A text that may change from request to request. Every change pays for the whole prefix again."""
        if len(why.split()) < 3:
            raise UsageError(
                f"Section {name!r} is computed anew for every request; each change of it breaks the cache. "
                f"Say why that is worth it in a sentence ({why!r} is none), or register it with dynamic()."
            )
        self._register(PromptSection(name, "dynamic", compute, breaks_cache_because=why))

    def forget(self) -> None:
        """After /clear or a compaction: every section is computed again."""
        self._kept.clear()

    def texts(self, part: SectionKind) -> list[str]:
        found = [self._text(section) for section in self._sections.values() if section.part == part]
        return [text for text in found if text.strip()]

    @property
    def dangers(self) -> dict[str, str]:
        """The sections that may break the cache, with the reason each of them gave."""
        named = ((section.name, section.breaks_cache_because) for section in self._sections.values())
        return {name: why for name, why in named if why}

    def _register(self, section: PromptSection) -> None:
        if section.name in self._sections:
            raise UsageError(
                f"There is a section named {section.name!r} already. Give this one another name."
            )
        self._sections[section.name] = section

    def _text(self, section: PromptSection) -> str:
        if section.breaks_cache_because:
            return section.compute()
        if section.name not in self._kept:
            self._kept[section.name] = section.compute()
        return self._kept[section.name]


class Scoped(msgspec.Struct, frozen=True):
    """A block of the system prompt; without a scope it carries no marker."""

    block: Block
    scope: Scope | None


def system_blocks(
    sections: SystemPromptSections,
    *,
    attribution: str = "",
    identity: str = "",
    capabilities: Capabilities,
    has_mcp_tools: bool = False,
) -> tuple[Scoped, ...]:
    """The default prompt in up to four blocks (PC-3). MCP tools differ per user: nothing is global then."""
    shared: Scope = "global" if "global" in capabilities.scopes and not has_mcp_tools else "org"
    parts: list[tuple[str, Scope | None]] = [
        (attribution, None),
        (identity, None),
        ("\n\n".join(sections.texts("static")), shared),
        ("\n\n".join(sections.texts("dynamic")), "org"),
    ]
    return tuple(Scoped(text_block(text), scope) for text, scope in parts if text.strip())


def own_system_prompt(text: str) -> tuple[Scoped, ...]:
    """A caller's own prompt replaces the default one wholesale: no split, nothing global (PC-4)."""
    return (Scoped(text_block(text), "org"),) if text.strip() else ()


def make_preamble(tools: tuple[Block, ...], system: tuple[Scoped, ...]) -> Preamble:
    """Tools and system as one value. Tools are put in the order of their names: stable bytes (PC-6)."""
    ordered = tuple(sorted(tools, key=lambda tool: tool.tool))
    marked = tuple(at for at, part in enumerate(system) if part.scope)
    scopes: tuple[Scope, ...] = tuple(part.scope for part in system if part.scope is not None)
    return Preamble(ordered, tuple(part.block for part in system), marked, scopes)
