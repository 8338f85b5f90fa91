"""Delete tool results by reference: an extension outside the public API, off by default (TW-7, api-facts 9).

A `tool_result` may carry `cache_reference`, its own tool_use id. A user message may carry a block `{"type":
"cache_edits", "edits": [{"type": "delete", "cache_reference": id}]}`. The results named in such blocks are
not shown to the model and cost nothing, but stay in every cache key: the prefix stays cached as long as the
block is sent again in the same place. The usage reports the total of deleted tokens.
"""

from typing import Any, Final

from everturn.twin.values import ParsedBlock, ParsedRequest, invalid_request
from everturn.wire.json_values import is_list, is_object

CACHE_EDITS_EXTENSION: Final = "cache_edits"
CACHE_EDITS_KIND: Final = "cache_edits"


def deleted_results(request: ParsedRequest) -> frozenset[bytes]:
    """The digests of the results that this request deletes. Raises ApiError for invalid edits."""
    seen: dict[str, ParsedBlock] = {}
    deleted: dict[str, ParsedBlock] = {}
    for number, message in enumerate(request.messages):
        for index, block in enumerate(message.blocks):
            if block.kind == "tool_result" and isinstance(block.body.get("cache_reference"), str):
                seen[_own_reference(block, f"messages.{number}.content.{index}")] = block
            elif block.kind == CACHE_EDITS_KIND:
                path = f"messages.{number}.content.{index}"
                if message.role != "user":
                    raise invalid_request(f"{path}: `cache_edits` blocks are only allowed in user messages")
                for reference, where in _references(block, path):
                    _delete(reference, where, seen, deleted)
    return frozenset(block.digest for block in deleted.values())


def _own_reference(block: ParsedBlock, path: str) -> str:
    reference = block.body["cache_reference"]
    if reference != block.body.get("tool_use_id"):
        raise invalid_request(
            f"{path}.cache_reference: must equal the `tool_use_id` of its block, got {reference}"
        )
    return reference


def _references(block: ParsedBlock, path: str) -> list[tuple[str, str]]:
    edits = block.body.get("edits")
    if not is_list(edits) or not edits:
        raise invalid_request(f"{path}.edits: Input should be a non-empty list")
    return [_reference(edit, f"{path}.edits.{number}") for number, edit in enumerate(edits)]


def _reference(edit: Any, path: str) -> tuple[str, str]:
    if not is_object(edit) or edit.get("type") != "delete":
        raise invalid_request(f"{path}.type: Input should be 'delete'")
    if extra := [name for name in edit if name not in ("type", "cache_reference")]:
        raise invalid_request(f"{path}.{extra[0]}: Extra inputs are not permitted")
    if not isinstance(edit.get("cache_reference"), str):
        raise invalid_request(f"{path}.cache_reference: Field required")
    return edit["cache_reference"], f"{path}.cache_reference"


def _delete(reference: str, path: str, seen: dict[str, ParsedBlock], deleted: dict[str, ParsedBlock]) -> None:
    if reference in deleted:
        raise invalid_request(f"{path}: {reference} was already deleted by an earlier edit")
    if reference not in seen:
        raise invalid_request(f"{path}: no earlier `tool_result` block has the cache_reference {reference}")
    deleted[reference] = seen[reference]
