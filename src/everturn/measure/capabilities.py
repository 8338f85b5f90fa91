"""The declared capabilities of a provider (OV-4). The engine turns off each feature that a provider lacks.

Facts and sources: api-facts 1 to 4 and 9. `cache_edits` is not part of any public API; only the twin supports
it, as an extension.
"""

from typing import Final, Literal

import msgspec

from everturn.measure.prefix_cache import LOOKBACK, Ttl

Scope = Literal["org", "global"]


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """A provider. With everything off: it accepts messages and returns replies, nothing more."""

    # The vendor of the API: some settings apply to one vendor only.
    name: str = ""
    caching: bool = False
    ttls: tuple[Ttl, ...] = ()
    # Who may share a cached prefix. No provider below says "global": publicly, a cache is never shared across
    # organizations (api-facts 1.3). Set it if you know that yours is.
    scopes: tuple[Scope, ...] = ()
    max_breakpoints: int = 0
    lookback: int = LOOKBACK
    # Whether a run of tool_use, or of tool_result, counts as one lookback position.
    runs_are_one: bool = True
    cache_edits: bool = False
    context_editing: bool = False
    native_compaction: bool = False
    diagnostics: bool = False
    token_counting: bool = False


ANTHROPIC: Final = Capabilities(
    name="anthropic",
    caching=True,
    ttls=("5m", "1h"),
    max_breakpoints=4,
    context_editing=True,
    native_compaction=True,
    diagnostics=True,
    token_counting=True,
)
# The rule for runs is documented only for Anthropic's own API, and on-demand compaction is not available.
BEDROCK: Final = Capabilities(
    name="bedrock",
    caching=True,
    ttls=("5m", "1h"),
    max_breakpoints=4,
    runs_are_one=False,
    context_editing=True,
)
VERTEX: Final = Capabilities(
    name="vertex",
    caching=True,
    ttls=("5m", "1h"),
    max_breakpoints=4,
    runs_are_one=False,
    context_editing=True,
    native_compaction=True,
    token_counting=True,
)
EXTENDED_TWIN: Final = msgspec.structs.replace(ANTHROPIC, cache_edits=True)
PLAIN: Final = Capabilities()

PROVIDERS: Final = {
    "anthropic": ANTHROPIC,
    "bedrock": BEDROCK,
    "vertex": VERTEX,
    "twin+cache_edits": EXTENDED_TWIN,
    "plain": PLAIN,
}
