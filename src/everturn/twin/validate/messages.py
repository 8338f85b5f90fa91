"""The rules between the messages of a request: roles, tool calls and results, no empty content.

Sources: api-facts 5 and 7. Consecutive messages of one role are one turn. `message_facts.py` checks the shape
of single messages, `twin/signatures.py` thinking signatures.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from everturn.history.blocks import THINKING
from everturn.twin.options import TwinOptions
from everturn.twin.validate import betas
from everturn.twin.validate.blocks import SERVER_RESULTS
from everturn.twin.validate.grammar import EXTRA, invalid_field, join_path, unknown_tag
from everturn.twin.validate.message_facts import BetaRequirement, MessageFacts, RequestFacts, ServerCall
from everturn.twin.values import ParsedMessage, ParsedRequest, invalid_request

MAX_MESSAGES = 100_000
_VERSION_WITHOUT_CITED_INPUT = "2026-10-21"
_MAX_IMAGES, _IMAGES_ON_SMALL_WINDOWS, _SMALL_WINDOW = 600, 100, 200_000
_SERVER_KINDS = SERVER_RESULTS | {"server_tool_use", "mcp_tool_use"}
# An assistant message that ends with one of these is not a prefill: the server continues its own work.
_RESUMABLE = SERVER_RESULTS | {"server_tool_use", "mcp_tool_use", "compaction"}
_UNEXPECTED_SYSTEM = (
    'Unexpected role "system". The Messages API accepts a top-level `system` parameter, '
    'not "system" as an input message role.'
)


def check_messages(request: ParsedRequest, facts: RequestFacts) -> None:
    if not facts.all:
        raise invalid_request("messages: at least one message is required")
    if len(facts.all) > MAX_MESSAGES:
        raise invalid_field("messages", f"List should have at most {MAX_MESSAGES} items after validation")
    _check_roles(request, facts.all)
    _check_block_roles(request, facts)
    _check_not_empty(request, facts)
    _check_images(request, facts)
    if not _is_all_answered(request, facts.all):
        _check_calls(request, facts.all)
    _check_end(request, facts.all[-1])


def check_beta_requirements(request: ParsedRequest, facts: RequestFacts, options: TwinOptions) -> None:
    """Check the blocks and fields of messages that require a beta header."""
    extended = "cache_edits" in options.extensions
    for index, found in facts.notable:
        for requirement in found.beta_requirements:
            if not betas.has_beta(request, requirement.headers) and not (
                extended and requirement.headers == betas.NO_BETA_HEADER
            ):
                raise invalid_field(
                    f"messages.{index}.{requirement.path}", _missing_beta(requirement, request)
                )


def _missing_beta(requirement: BetaRequirement, request: ParsedRequest) -> str:
    if requirement.kind is None:
        return EXTRA
    if requirement.kind == "tool_definition":
        return unknown_tag(
            requirement.kind, ("tool_reference", "mcp_tool_reference", "mcp_toolset_reference")
        )
    if requirement.kind == "compaction" and betas.has_beta(request, betas.COMPACT_AT_THRESHOLD):
        return f"a signed `compaction` block requires anthropic-beta: {betas.COMPACT_ON_DEMAND[0]}"
    return betas.unexpected_block(requirement.kind, request)


def _check_roles(request: ParsedRequest, facts: Sequence[MessageFacts]) -> None:
    sent = request.messages
    if any(message.role == "system" for message in sent):
        _check_system_messages(request, facts)
    opens_with_summary = facts[0].kinds[:1] == ("compaction",)
    if sent[0].role == "assistant" and not opens_with_summary:
        raise invalid_request('messages: first message must use the "user" role')


def _check_system_messages(request: ParsedRequest, facts: Sequence[MessageFacts]) -> None:
    if not request.model.system_messages:
        raise invalid_field("messages", _UNEXPECTED_SYSTEM)
    sent = request.messages
    for index, message in enumerate(sent):
        if message.role != "system":
            continue
        before = next((i for i in range(index - 1, -1, -1) if sent[i].role != "system"), None)
        after = next((i for i in range(index + 1, len(sent)) if sent[i].role != "system"), None)
        if before is None or not _may_precede_system(sent[before], facts[before]):
            raise invalid_field(
                f"messages.{index}",
                "role 'system' must follow a 'user' message or an 'assistant' message that ends in a server "
                "tool result",
            )
        if after is not None and sent[after].role != "assistant":
            raise invalid_field(
                f"messages.{index}", "role 'system' must precede an 'assistant' message or end the array"
            )
        _check_system_message(message, facts[index], f"messages.{index}")


def _may_precede_system(message: ParsedMessage, found: MessageFacts) -> bool:
    return message.role == "user" or (bool(found.kinds) and found.kinds[-1] in SERVER_RESULTS)


def _check_system_message(message: ParsedMessage, found: MessageFacts, path: str) -> None:
    if not message.blocks and not message.extra.get("output_config"):
        raise invalid_field(path, "a 'system' message must have content or output_config")
    if message.extra.get("clear_at") == "next_user_message" and found.breakpoints:
        where = join_path(path, f"{found.breakpoints[0].path}.cache_control")
        raise invalid_field(where, "cache_control cannot be set on a message with `clear_at`")


# The role that a block belongs to; other types are allowed in both.
_ONLY_IN = {
    "tool_use": "assistant",
    "server_tool_use": "assistant",
    "mcp_tool_use": "assistant",
    "thinking": "assistant",
    "redacted_thinking": "assistant",
    "tool_result": "user",
}


def _check_block_roles(request: ParsedRequest, facts: RequestFacts) -> None:
    strict = request.version >= _VERSION_WITHOUT_CITED_INPUT
    places = {**_ONLY_IN, "document": "user"} if strict else _ONLY_IN
    for index, found in facts.notable:
        role = request.messages[index].role
        for at, kind in enumerate(found.kinds):
            place = places.get(kind, role)
            if place != role:
                where = f"messages.{index}.content.{at}"
                raise invalid_field(where, f"`{kind}` blocks can only be in `{place}` messages")
        if strict and found.cited is not None and role == "user":
            path = f"messages.{index}.content.{found.cited}.text.citations"
            raise invalid_field(path, "citations are not permitted on text blocks in `user` messages")


def _check_not_empty(request: ParsedRequest, facts: RequestFacts) -> None:
    last = len(facts.all) - 1
    for index, found in facts.notable:
        role = request.messages[index].role
        if not found.kinds and role != "system" and not (index == last and role == "assistant"):
            raise invalid_field(
                f"messages.{index}",
                "all messages must have non-empty content except for the optional final assistant message",
            )
        if found.blank is not None:
            raise invalid_field("messages", f"text content blocks must {found.blank}")


def _check_images(request: ParsedRequest, facts: RequestFacts) -> None:
    limit = _IMAGES_ON_SMALL_WINDOWS if request.model.window <= _SMALL_WINDOW else _MAX_IMAGES
    images = sum(found.images for _, found in facts.notable)
    if images > limit:
        raise invalid_field("messages", f"too many images: {images} > {limit}")


def _is_all_answered(request: ParsedRequest, facts: Sequence[MessageFacts]) -> bool:
    """Whether it is the usual conversation: user and assistant in turn, each call answered at once.

    False says only that `_check_calls` has to look: it knows every case and the words for it, and takes
    several times as long.
    """
    roles = [message.role for message in request.messages]
    if roles[::2].count("user") + roles[1::2].count("assistant") < len(roles):
        return False
    if not request.kinds.isdisjoint(_SERVER_KINDS):
        return False
    seen: set[str] = set()
    count = 0
    asked: tuple[str, ...] = ()
    for found in facts:
        if found.result_ids != asked or found.leading_results != len(asked):
            return False
        asked = found.call_ids
        seen.update(asked)
        count += len(asked)
    return not asked and len(seen) == count


@dataclass(slots=True)
class _Pending:
    """Calls without a result so far, and results, while going through the messages."""

    calls: dict[str, int] = field(default_factory=dict[str, int])
    answered: set[str] = field(default_factory=set[str])
    seen: set[str] = field(default_factory=set[str])
    server: dict[str, ServerCall] = field(default_factory=dict[str, ServerCall])
    server_seen: set[str] = field(default_factory=set[str])
    # Still at the start of the user turn, with only results so far.
    answering: bool = False


def _check_calls(request: ParsedRequest, facts: Sequence[MessageFacts]) -> None:
    pending = _Pending()
    for index, (message, found) in enumerate(zip(request.messages, facts, strict=True)):
        if message.role == "assistant":
            if pending.answering:
                _check_all_answered(pending, request)
            _add_assistant(pending, index, found)
        elif message.role == "user":
            _add_user(pending, index, found, request)
    if pending.calls:
        _check_all_answered(pending, request)


def _add_assistant(pending: _Pending, index: int, found: MessageFacts) -> None:
    pending.answered.clear()
    for at, id in found.calls:
        if id in pending.seen:
            raise invalid_field(f"messages.{index}.content.{at}", "`tool_use` ids must be unique")
        pending.seen.add(id)
        pending.calls[id] = index
    for call in found.server_calls:
        pending.server[call.id] = call
        pending.server_seen.add(call.id)
    for at, kind, id in found.server_results:
        if id not in pending.server_seen:
            raise invalid_field(
                f"messages.{index}.content.{at}",
                f"unexpected `tool_use_id` found in `{kind}` blocks: {id}. Each `{kind}` block must have a "
                "corresponding `server_tool_use` block before it.",
            )
        pending.server.pop(id, None)


def _add_user(pending: _Pending, index: int, found: MessageFacts, request: ParsedRequest) -> None:
    if not found.results and not pending.calls and not pending.server:
        pending.answering = True
        pending.answered.clear()
        return
    leading = found.leading_results
    for at, id in found.results:
        path = f"messages.{index}.content.{at}"
        if id in pending.answered:
            reason = "each tool_use must have a single result. Found multiple `tool_result` blocks with id:"
            raise invalid_field(path, f"{reason} {id}")
        if id in pending.calls and at >= leading:
            # A result after other content does not count.
            _check_all_answered(pending, request)
        if id not in pending.calls:
            raise invalid_field(
                path,
                f"unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each `tool_result` block "
                "must have a corresponding `tool_use` block in the previous message.",
            )
        del pending.calls[id]
        pending.answered.add(id)
    pending.answering = True
    if len(found.kinds) > leading:
        if pending.calls:
            _check_all_answered(pending, request)
        _check_server_calls(pending)


def _check_all_answered(pending: _Pending, request: ParsedRequest) -> None:
    """Check that every call has a result by now."""
    pending.answering = False
    if not pending.calls:
        return
    index = next(iter(pending.calls.values()))
    ids = ", ".join(id for id, at in pending.calls.items() if at == index)
    if request.body.get("compaction") is not None:
        raise invalid_request(
            f"messages.{index}: the conversation to compact ends in an unanswered tool call: {ids}",
            error_code="compaction_incomplete_turn",
        )
    raise invalid_field(
        f"messages.{index}",
        f"`tool_use` ids were found without `tool_result` blocks immediately after: {ids}. Each `tool_use` "
        "block must have a corresponding `tool_result` block in the next message.",
    )


def _check_server_calls(pending: _Pending) -> None:
    for call in pending.server.values():
        raise invalid_request(
            f"`{call.name}` tool use with id `{call.id}` was found without a corresponding "
            f"`{call.answered_by}` block"
        )


def _check_end(request: ParsedRequest, found: MessageFacts) -> None:
    """The conversation ends with the user, or with a prefill if the model supports it."""
    message = request.messages[-1]
    if message.role != "assistant" or request.endpoint != "messages":
        return
    last = found.kinds[-1] if found.kinds else None
    if request.body.get("compaction") is not None or last in _RESUMABLE:
        return
    if not request.model.prefill:
        raise invalid_request(
            "This model does not support assistant message prefill. "
            "The conversation must end with a user message."
        )
    if last in THINKING:
        # Reported for claude-haiku-4-5; in earlier messages a reply of thinking alone is accepted.
        where = f"messages.{len(request.messages) - 1}"
        raise invalid_field(where, f"The final block in an assistant message cannot be `{last}`.")
    if last == "text" and message.blocks[-1].body["text"][-1:].isspace():
        raise invalid_field("messages", "final assistant content cannot end with trailing whitespace")
