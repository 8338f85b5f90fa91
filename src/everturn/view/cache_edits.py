"""Deleting results from the cached prefix: references, and the blocks that name them (PC-15, MC-10).

An extension that no public API has (api-facts 9). Each result carries its call id as `cache_reference`; a
`cache_edits` block names the references to delete. Once sent, such a block must be repeated in every later
request at the same place; otherwise the prefix would differ and miss the cache. The log ensures this: the
deletion is an appended record (`CacheDeleted`), and flattening puts its block at its place in the log.
"""

from collections.abc import Sequence
from typing import Final, Literal

from everturn.history.blocks import Block, block_from_fields, with_field

CACHE_EDITS: Final = "cache_edits"

# Whether results carry a reference: all of them if the provider supports cache edits, otherwise none.
References = Literal["none", "all"]


def edits_block(calls: Sequence[str]) -> Block:
    deletions = [{"type": "delete", "cache_reference": call} for call in calls]
    return block_from_fields({"type": CACHE_EDITS, "edits": deletions})


def with_cache_reference(block: Block) -> Block:
    return with_field(block, "cache_reference", block.call)
