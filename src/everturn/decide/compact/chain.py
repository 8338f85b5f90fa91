"""How compactions follow one another, and how the last one is undone (CP-25, CP-30).

A chain is read from the view: its boundary is the compaction before, and the receipt behind that says which
of the chain it was.
"""

import msgspec

from everturn.decide.compact.call_index import attached, mapping
from everturn.decide.compact.divide import is_said
from everturn.decide.compact.values import CompactionChain, CompactionSkipped
from everturn.history.edits import Undone
from everturn.history.log import View

RECEIPT = "compaction_receipt"


def chain_of(view: View, *, threshold: int, source: str) -> CompactionChain:
    """The place of a compaction of this view among those before it."""
    boundary = view.boundary
    if boundary is None:
        return CompactionChain(threshold=threshold, source=source)
    return CompactionChain(
        follows=boundary.uuid,
        turns_since=turns_since(view),
        length=_length(view) + 1,
        threshold=threshold,
        source=source,
    )


def turns_since(view: View) -> int:
    """Responses of the model since the boundary; kept ones are from before it."""
    said = (each for each in view.records if each.kind == "assistant" and is_said(each))
    return len({each.message_id or each.uuid for each in said if each.uuid not in view.stale})


def _length(view: View) -> int:
    told = [mapping(each.payload.get("chain")).get("length") for each in attached(view.records, RECEIPT)]
    return max((length for length in told if isinstance(length, int)), default=1)


def plan_undo(view: View, *, why: str = "asked for by the user") -> Undone | CompactionSkipped:
    """The edit that undoes the last compaction."""
    if view.boundary is None:
        return CompactionSkipped("No compaction found to undo: the view goes back to the beginning.")
    return Undone(view.boundary.uuid, why)


def plan_undo_after_refusal(view: View, refusal: str) -> Undone | None:
    """The edit that undoes a compaction whose view the API has never accepted: no reply followed (CP-38)."""
    boundary = view.boundary
    accepted = (each for each in view.records if each.reply is not None and each.uuid not in view.stale)
    if boundary is None or any(accepted):
        return None
    return Undone(boundary.uuid, f"the API refused the compacted view: {refusal}")


def chain_fields(chain: CompactionChain) -> dict[str, str | int]:
    return msgspec.structs.asdict(chain)
