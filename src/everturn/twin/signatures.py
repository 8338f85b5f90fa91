"""Sign thinking and summaries, and check that they come back unchanged and in the same conversation.

Thinking is bound to tools, system and every earlier block that is not thinking (api-facts 7). Each signature
also links to the thinking before it, so thinking may be removed from the start of the history, but not from
its middle. `signature_format.py` defines the format of a signature; `validate/` checks the shape of these
blocks.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import lru_cache, partial
from typing import Any, Final

from everturn.history.blocks import THINKING
from everturn.measure.model_table import Model
from everturn.twin.options import TwinOptions
from everturn.twin.signature_format import (
    EMPTY_DIGEST,
    SignatureRecord,
    decode_signature,
    digest,
    sign,
    text_digest,
)
from everturn.twin.validate import betas
from everturn.twin.validate.message_facts import collect_message_facts, compute_binding_digest
from everturn.twin.values import ApiError, ParsedBlock, ParsedMessage, ParsedRequest, invalid_request
from everturn.wire.json_values import as_object

__all__ = ["CheckedThinking", "check_thinking", "omits_thinking", "sign", "sign_compaction", "sign_reply"]

# Binding is enforced for accounts created since the first date, and for all accounts on models released since
# the second.
_BOUND_ACCOUNTS_SINCE: Final = date(2026, 8, 31)
_BOUND_FOR_ALL_SINCE: Final = date(2026, 11, 1)
# The release of Mythos Preview, the first model that omits the text of thinking by default.
_OMITTED_SINCE: Final = date(2026, 4, 7)
# Every model reads the thinking of Haiku 5.5, which reads only its own.
_READS_ONLY_ITSELF: Final = "claude-haiku-5-5"
_READ_BY_ALL: Final = "claude-haiku-5-5"

_MODIFIED: Final = (
    "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. "
    "These blocks must remain as they were in the original response."
)
_WRONG_CONVERSATION: Final = (
    "Invalid `signature` in `thinking` block. The block is bound to a different conversation. Remove the "
    'block, or set `thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
)


@dataclass(frozen=True, slots=True)
class CheckedThinking:
    """The request as the model sees it, and the `input_transformations` of the response."""

    request: ParsedRequest
    transformations: tuple[dict[str, str], ...] = ()


class BindingDigest:
    """The digest of the conversation that thinking is bound to, updated block by block.

    Each step hashes the one before, so that the signature of a compaction block can carry the state that it
    replaces.
    """

    def __init__(self, request: ParsedRequest) -> None:
        self._base = _section_digest(request.tools) + _section_digest(request.system)
        self.state = EMPTY_DIGEST

    def add(self, role: str, block_digest: bytes) -> None:
        self.state = digest(self.state + role.encode() + block_digest)

    def apply_compaction(self, body: Mapping[str, Any], block_digest: bytes) -> None:
        """Continue from the state that a summary replaces. A failed compaction replaces nothing."""
        if body.get("content") is None:
            return
        record = decode_signature(body.get("signature") or "")
        self.state = record.prefix if record is not None else digest(block_digest)

    def prefix(self) -> bytes:
        return digest(self._base + self.state)


@lru_cache(maxsize=1_000)
def _join_digests(digests: tuple[bytes, ...]) -> bytes:
    return digest(b"".join(digests))


def _section_digest(sent: Sequence[ParsedBlock]) -> bytes:
    return _join_digests(tuple(block.digest for block in sent))


def link(signature: str) -> bytes:
    """The digest by which a thinking block refers to the one before it."""
    return text_digest(signature)


def _signature(body: Mapping[str, Any]) -> str:
    return body["data"] if body["type"] == "redacted_thinking" else body["signature"]


# ── signing a reply ──────────────────────────────────────────────────────────────────────────────


def omits_thinking(request: ParsedRequest, options: TwinOptions) -> bool:
    """Whether thinking is returned without its text: by the request, else by the option or the model."""
    asked = request.get_object("thinking").get("display")
    if asked is not None:
        return asked == "omitted"
    if options.thinking_display != "by_model":
        return options.thinking_display == "omitted"
    return request.model.released >= _OMITTED_SINCE


def sign_reply(
    content: Sequence[dict[str, Any]], request: ParsedRequest, *, omitted: bool = False
) -> tuple[dict[str, Any], ...]:
    """The reply with its thinking signed, and emptied if `omitted`.

    `request` is the one that `check_thinking` returned.
    """
    if not any(block["type"] in THINKING for block in content):
        return tuple(content)
    conversation, chain = _read_to_end(request)
    signed: list[dict[str, Any]] = []
    for block in content:
        kind = block["type"]
        if kind in THINKING:
            prefix = conversation.prefix() if request.model.binds_thinking else EMPTY_DIGEST
            block = _sign_block(block, request, prefix=prefix, chain=chain, omitted=omitted)
            chain = link(_signature(block))
        elif kind == "compaction":
            conversation.apply_compaction(block, compute_binding_digest(block))
        else:
            conversation.add("assistant", compute_binding_digest(block))
        signed.append(block)
    return tuple(signed)


def _sign_block(
    block: dict[str, Any], request: ParsedRequest, *, prefix: bytes, chain: bytes, omitted: bool
) -> dict[str, Any]:
    sign_as = partial(sign, model=request.model, workspace=request.workspace, prefix=prefix, chain=chain)
    if block["type"] == "redacted_thinking":
        return {**block, "data": sign_as(block.get("data", ""), kind="redacted")}
    text = block.get("thinking", "")
    if omitted:
        return {**block, "thinking": "", "signature": sign_as(text, kind="omitted")}
    return {**block, "thinking": text, "signature": sign_as(text)}


def sign_compaction(block: dict[str, Any], request: ParsedRequest) -> dict[str, Any]:
    """Sign the block that replaces all messages of `request`. Later thinking stays bound to them."""
    conversation, _ = _read_to_end(request)
    signature = sign(
        block["content"],
        model=request.model,
        workspace=request.workspace,
        prefix=conversation.state,
        chain=_changes(block),
        kind="compaction",
    )
    return {**block, "signature": signature}


def _changes(block: Mapping[str, Any]) -> bytes:
    return _join_digests(tuple(compute_binding_digest(change) for change in block.get("tool_changes") or ()))


def _read_to_end(request: ParsedRequest) -> tuple[BindingDigest, bytes]:
    conversation = BindingDigest(request)
    chain = EMPTY_DIGEST
    for _, _, message, block, block_digest in _walk_blocks(request):
        if block.kind in THINKING:
            chain = link(_signature(block.body))
        elif block.kind == "compaction":
            conversation.apply_compaction(block.body, block_digest)
        elif request.model.binds_thinking or request.body.get("compaction") is not None:
            conversation.add(message.role, block_digest)
    return conversation, chain


def _walk_blocks(request: ParsedRequest) -> Iterator[tuple[int, int, ParsedMessage, ParsedBlock, bytes]]:
    for index, message in enumerate(request.messages):
        found = collect_message_facts(message, index)
        for at, block in enumerate(message.blocks):
            yield index, at, message, block, found.binding_digests[at]


# ── checking a request ───────────────────────────────────────────────────────────────────────────


def check_thinking(request: ParsedRequest, options: TwinOptions) -> CheckedThinking:
    """Check the signatures in a request; raises ApiError where the API would."""
    if request.kinds.isdisjoint((*THINKING, "compaction")):
        return CheckedThinking(request)
    check = _Check(request, options)
    for index, at, message, block, block_digest in _walk_blocks(request):
        if block.kind in THINKING:
            check.check_block(index, at, block)
            continue
        check.end_run()
        if block.kind == "compaction":
            _check_summary(block, options)
            check.conversation.apply_compaction(block.body, block_digest)
        elif check.binds:
            check.conversation.add(message.role, block_digest)
    return CheckedThinking(_drop_blocks(request, check.dropped), tuple(check.transformations))


class _Check:
    """The state of the check while it goes through the messages."""

    def __init__(self, request: ParsedRequest, options: TwinOptions) -> None:
        self.request = request
        self.options = options
        self.binds = request.model.binds_thinking
        self.conversation = BindingDigest(request)
        self.dropped: set[tuple[int, int]] = set()
        self.transformations: list[dict[str, str]] = []
        self._kept: bytes = EMPTY_DIGEST
        replies = (i for i, message in enumerate(request.messages) if message.role == "assistant")
        self._latest = max(replies, default=-1)
        self._run_is_dropped = False
        self._before: tuple[int, SignatureRecord | None, str] | None = None

    def end_run(self) -> None:
        self._run_is_dropped = False

    def check_block(self, index: int, at: int, block: ParsedBlock) -> None:
        signature = _signature(block.body)
        record = decode_signature(signature)
        if record is None or (record.kind == "redacted") != (block.kind == "redacted_thinking"):
            record = None
            if self.options.foreign_signatures == "reject":
                raise self._invalid_error(index, at, block)
        elif self._is_modified(index, record, block):
            raise self._modified_error(index, at, block)
        self._before = (index, record, signature)
        if record is None or self._is_shown(index, at, record):
            self._kept = link(signature)

    def _is_modified(self, index: int, record: SignatureRecord, block: ParsedBlock) -> bool:
        """Whether the text differs from what was signed or, in the latest message, the order."""
        if record.kind == "thinking" and record.text != text_digest(block.body["thinking"]):
            return True
        before = self._before
        if index != self._latest or before is None or before[0] != index or before[1] is None:
            return False
        return record.chain != link(before[2]) and not self._run_is_dropped

    def _modified_error(self, index: int, at: int, block: ParsedBlock) -> ApiError:
        if index == self._latest:
            return invalid_request(f"messages.{index}.content.{at}: {_MODIFIED}")
        return self._invalid_error(index, at, block)

    def _invalid_error(self, index: int, at: int, block: ParsedBlock) -> ApiError:
        field = "data" if block.kind == "redacted_thinking" else "signature"
        return invalid_request(f"messages.{index}.content.{at}: Invalid `{field}` in `{block.kind}` block")

    def _is_shown(self, index: int, at: int, record: SignatureRecord) -> bool:
        """Whether the model sees the block."""
        if not can_read_thinking(record.model, self.request.model):
            self._drop(index, at, "model_binding_mismatch")
            return False
        if not self.binds or not record.model.binds_thinking or not self._is_mismatched(record):
            return True
        if not self._is_enforced():
            self._note("thinking_mismatch_allowed", index, at, "prefix_binding_mismatch")
            return True
        if _on_mismatch(self.request) == "error":
            raise invalid_request(f"messages.{index}.content.{at}: {self._binding_message()}")
        self._drop(index, at, "prefix_binding_mismatch")
        self._run_is_dropped = True
        return False

    def _is_mismatched(self, record: SignatureRecord) -> bool:
        if self._run_is_dropped or record.prefix != self.conversation.prefix():
            return True
        return self._kept not in (EMPTY_DIGEST, record.chain)

    def _is_enforced(self) -> bool:
        return (
            self.options.account_created >= _BOUND_ACCOUNTS_SINCE
            or self.request.model.released >= _BOUND_FOR_ALL_SINCE
        )

    def _binding_message(self) -> str:
        if betas.has_beta(self.request, betas.BINDING_CONTROLS):
            return _WRONG_CONVERSATION
        needed = f"the `{betas.BINDING_CONTROLS[0]}` value in the `anthropic-beta` header"
        return f"{_WRONG_CONVERSATION} That setting requires {needed}."

    def _drop(self, index: int, at: int, reason: str) -> None:
        self.dropped.add((index, at))
        self._note("thinking_dropped", index, at, reason)

    def _note(self, kind: str, index: int, at: int, reason: str) -> None:
        path = f"messages.{index}.content.{at}"
        self.transformations.append({"type": kind, "path": path, "reason": reason})


def _on_mismatch(request: ParsedRequest) -> str:
    binding = as_object(request.get_object("thinking").get("block_binding"))
    return binding.get("prefix_mismatch_behavior") or "error"


def can_read_thinking(made_by: Model, reader: Model) -> bool:
    """Whether a model may read thinking (api-facts 7): its own; from 5.1 on also that of older models."""
    if made_by.id == reader.id:
        return True
    if reader.id == _READS_ONLY_ITSELF:
        return False
    if made_by.id == _READ_BY_ALL:
        return True
    return made_by.binds_thinking and reader.released >= made_by.released


def _check_summary(block: ParsedBlock, options: TwinOptions) -> None:
    signature = block.body.get("signature")
    if not signature:
        return
    record = decode_signature(signature)
    if record is None or record.kind != "compaction":
        if options.foreign_signatures == "reject":
            raise _summary_error("signature is not valid", "compaction_signature_invalid")
        return
    if record.text != text_digest(block.body.get("content") or ""):
        raise _summary_error("content differs from what was signed", "compaction_content_mismatch")
    if record.chain != _changes(block.body):
        raise _summary_error("tool_changes differ from those signed", "compaction_tool_changes_mismatch")


def _summary_error(what: str, error_code: str) -> ApiError:
    return invalid_request(
        f"messages.0.content.0: `compaction` block {what}; send the block back as it was returned",
        error_code=error_code,
    )


def _drop_blocks(request: ParsedRequest, dropped: set[tuple[int, int]]) -> ParsedRequest:
    if not dropped:
        return request
    touched = {index for index, _ in dropped}
    messages = tuple(
        replace(message, blocks=tuple(b for at, b in enumerate(message.blocks) if (index, at) not in dropped))
        if index in touched
        else message
        for index, message in enumerate(request.messages)
    )
    return replace(request, messages=messages)
