"""Users' settings for their tools, in addition to `measure/tool_table.py` (MC-2).

None of these replaces a row of the table. `keep` wins over the other lists, and a tool that is not described
is kept: its result may be impossible to get again. Which results are cleared, and when: `micro/`.
"""

from functools import lru_cache
from typing import Final, Literal

import msgspec

from everturn.measure.tool_table import DEFAULT_TOOL_TABLE, ToolEntry, ToolTable

ToolKind = Literal["reproducible", "write_like", "keep"]


class ToolKinds(msgspec.Struct, frozen=True, kw_only=True):
    """Names or patterns, in addition to the table."""

    # The result may be cleared: another call gives it again.
    reproducible: tuple[str, ...] = ()
    # The large part is the input; the result may be cleared too.
    write_like: tuple[str, ...] = ()
    # Never cleared.
    keep: tuple[str, ...] = ()
    # Returns the content of one file: reads of the same file are found, and the file is restored after a
    # compaction. The result may be cleared.
    reads: tuple[str, ...] = ()
    # Every result may be cleared except those of `keep`: for policies that imitate systems which do so.
    clear_all: bool = False


DEFAULT_TOOLS: Final = ToolKinds()
ALL_ALIKE: Final = ToolKinds(clear_all=True)


@lru_cache(maxsize=64)
def build_tool_table(kinds: ToolKinds) -> ToolTable:
    """The default table with a user's settings; a later entry wins."""
    entries = (
        ToolEntry(names=("*",) if kinds.clear_all else (), is_reproducible=True),
        ToolEntry(names=kinds.reads, does="reads", is_reproducible=True, has_large_input=False),
        ToolEntry(names=kinds.reproducible, is_reproducible=True, has_large_input=False),
        ToolEntry(names=kinds.write_like, is_reproducible=True, has_large_input=True),
        ToolEntry(names=kinds.keep, is_reproducible=False, has_large_input=False),
    )
    return DEFAULT_TOOL_TABLE.extended(entries)


def kind_of(tool: str, kinds: ToolKinds) -> ToolKind:
    row = build_tool_table(kinds).find(tool)
    if not row.is_reproducible:
        return "keep"
    return "write_like" if row.has_large_input else "reproducible"
