"""Fields that exclude or require each other: prewarming, context editing, compaction, threads.

Sources: api-facts 1.9, 2.3 to 2.6. `betas.py` lists the beta headers that they need.
"""

from everturn.twin.context_editing import CLEAR_THINKING, COMPACT, get_edits
from everturn.twin.validate.grammar import invalid_field
from everturn.twin.validate.message_facts import RequestFacts
from everturn.twin.validate.model_rules import forces_a_tool, has_thinking_enabled
from everturn.twin.values import ParsedRequest, invalid_request
from everturn.wire.json_values import as_object


def _edit_kinds(request: ParsedRequest) -> list[str]:
    return [edit["type"] for edit in get_edits(request)]


def check_prewarm(request: ParsedRequest) -> None:
    """`max_tokens: 0` fills the cache without a reply (api-facts 1.9)."""
    if request.body.get("max_tokens") != 0:
        return
    excluded = {
        "`stream`: true": bool(request.body.get("stream")),
        '`thinking.type`: "enabled"': request.get_object("thinking").get("type") == "enabled",
        "`output_config.format`": request.get_object("output_config").get("format") is not None,
        '`tool_choice` of type "any" or "tool"': forces_a_tool(request),
    }
    for name, used in excluded.items():
        if used:
            raise invalid_field("max_tokens", f"0 cannot be combined with {name}")


def check_edits(request: ParsedRequest) -> None:
    kinds = _edit_kinds(request)
    if CLEAR_THINKING in kinds:
        if kinds[0] != CLEAR_THINKING:
            reason = f"`{CLEAR_THINKING}` must be the first edit when combined with others"
            raise invalid_field("context_management.edits", reason)
        if not has_thinking_enabled(request):
            raise invalid_request(
                f"`{CLEAR_THINKING}` strategy requires `thinking` to be enabled or adaptive"
            )
    if COMPACT in kinds and not request.model.compacts:
        raise invalid_request(f"`{COMPACT}` is not supported for {request.body['model']}.")


def check_compaction_blocks(request: ParsedRequest, facts: RequestFacts) -> None:
    """There may be one signed block, and it comes first (api-facts 2.5)."""
    signed = [
        (index, at)
        for index, found in facts.notable
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
    if COMPACT in _edit_kinds(request):
        raise invalid_request(f"`{COMPACT}` cannot run on a request that carries a signed `compaction` block")


def check_compaction(request: ParsedRequest, facts: RequestFacts) -> None:
    """The top-level `compaction` asks for a summary instead of a reply (api-facts 2.5)."""
    if request.body.get("compaction") is None:
        return
    budget = as_object(request.get_object("output_config").get("task_budget"))
    excluded = {
        "context_management": request.body.get("context_management") is not None,
        "stop_sequences": bool(request.body.get("stop_sequences")),
        "output_config.format": request.get_object("output_config").get("format") is not None,
        "tool_choice": forces_a_tool(request),
        "output_config.task_budget.remaining": budget.get("remaining") is not None,
    }
    for name, used in excluded.items():
        if used:
            raise invalid_field("compaction", f"cannot be combined with `{name}`")
    if not request.model.compacts:
        raise invalid_field("compaction", f"not supported for {request.body['model']}.")
    if all(set(found.kinds) <= {"compaction"} for found in facts.all):
        raise invalid_request("there is nothing to summarize", error_code="compaction_nothing_to_summarize")


def check_thread(request: ParsedRequest) -> None:
    """A thread excludes some fields (api-facts 2.6). `twin/server_threads.py` has resolved a `continue`."""
    if request.body.get("thread") is None:
        return
    for name in ("context_management", "fallbacks"):
        if request.body.get(name) is not None:
            raise invalid_request(
                f"thread: not supported together with `{name}`", error_code="thread_unsupported_request"
            )
