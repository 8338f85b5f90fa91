"""Which parts of a request exclude or demand each other: prewarming, context editing, compaction, threads.

api-facts 1.9, 2.3 to 2.6. Which beta header they need is in `betas.py`.
"""

from collections.abc import Sequence
from typing import Any

from everturn.twin.validate.grammar import invalid_field
from everturn.twin.validate.message_facts import MessageFacts
from everturn.twin.validate.model_rules import forces_a_tool, thinks
from everturn.twin.values import ApiError, ParsedRequest, invalid_request

_THINKING_EDIT = "clear_thinking_20251015"
_COMPACT_EDIT = "compact_20260112"


def _output_config(request: ParsedRequest) -> dict[str, Any]:
    return request.body.get("output_config") or {}


def _edit_kinds(request: ParsedRequest) -> list[str]:
    edits = (request.body.get("context_management") or {}).get("edits") or ()
    return [edit["type"] for edit in edits]


def check_prewarm(request: ParsedRequest) -> None:
    """`max_tokens: 0` fills the cache and says nothing (api-facts 1.9)."""
    if request.body.get("max_tokens") != 0:
        return
    excluded = {
        "`stream`: true": bool(request.body.get("stream")),
        '`thinking.type`: "enabled"': (request.body.get("thinking") or {}).get("type") == "enabled",
        "`output_config.format`": _output_config(request).get("format") is not None,
        '`tool_choice` of type "any" or "tool"': forces_a_tool(request),
    }
    for name, used in excluded.items():
        if used:
            raise invalid_field("max_tokens", f"0 cannot be combined with {name}")


def check_edits(request: ParsedRequest) -> None:
    kinds = _edit_kinds(request)
    if _THINKING_EDIT in kinds:
        if kinds[0] != _THINKING_EDIT:
            reason = f"`{_THINKING_EDIT}` must be the first edit when combined with others"
            raise invalid_field("context_management.edits", reason)
        if not thinks(request):
            raise invalid_request(
                f"`{_THINKING_EDIT}` strategy requires `thinking` to be enabled or adaptive"
            )
    if _COMPACT_EDIT in kinds and not request.model.compacts:
        raise invalid_request(f"`{_COMPACT_EDIT}` is not supported for {request.body['model']}.")


def check_compaction_blocks(request: ParsedRequest, facts: Sequence[MessageFacts]) -> None:
    """A signed block stands alone and first (api-facts 2.5); `twin/signatures.py` checks its signature."""
    signed = [
        (index, at)
        for index, found in enumerate(facts)
        for at in found.compactions
        if request.messages[index].blocks[at].body.get("signature")
    ]
    if not signed:
        return
    if len(signed) > 1:
        raise invalid_request(
            "only one signed `compaction` block may be sent; keep the latest and remove the others",
            error_code="compaction_block_ambiguous",
        )
    if signed[0] != (0, 0):
        raise invalid_request(
            "`compaction` block must be sent first, in place of the messages it summarizes; "
            "remove those messages",
            error_code="compaction_block_misplaced",
        )
    if _COMPACT_EDIT in _edit_kinds(request):
        raise invalid_request(
            f"`{_COMPACT_EDIT}` cannot run on a request that carries a signed `compaction` block"
        )


def check_compaction(request: ParsedRequest, facts: Sequence[MessageFacts]) -> None:
    """The top-level `compaction` summarizes everything and answers nothing (api-facts 2.5)."""
    if request.body.get("compaction") is None:
        return
    budget = _output_config(request).get("task_budget") or {}
    excluded = {
        "context_management": request.body.get("context_management") is not None,
        "stop_sequences": bool(request.body.get("stop_sequences")),
        "output_config.format": _output_config(request).get("format") is not None,
        "tool_choice": forces_a_tool(request),
        "output_config.task_budget.remaining": budget.get("remaining") is not None,
    }
    for name, used in excluded.items():
        if used:
            raise invalid_field("compaction", f"cannot be combined with `{name}`")
    if not request.model.compacts:
        raise invalid_field("compaction", f"not supported for {request.body['model']}.")
    if all(set(found.kinds) <= {"compaction"} for found in facts):
        raise invalid_request("there is nothing to summarize", error_code="compaction_nothing_to_summarize")


def check_thread(request: ParsedRequest) -> None:
    """The twin keeps no threads; the API keeps them best effort, so clients can replay (api-facts 2.6)."""
    thread = request.body.get("thread")
    if thread is None:
        return
    for name in ("context_management", "fallbacks"):
        if request.body.get(name) is not None:
            raise invalid_request(
                f"thread: not supported together with `{name}`", error_code="thread_unsupported_request"
            )
    if thread["type"] == "continue":
        raise ApiError(
            404,
            "not_found_error",
            f"thread: no usable thread was found for {thread['previous_message_id']}; send the whole "
            'conversation with `thread: {"type": "create"}`',
            error_code="thread_not_found",
        )
