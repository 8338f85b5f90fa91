"""Thinking and summaries that come back: as they were signed, and in the conversation they belong to.

The conversation is tools + system + every earlier block that is not thinking (api-facts 7). A link to the
thinking before it makes a chain: thinking may go from the start of the history, not from its middle. What a
signature consists of is `signature_format.py`'s; the shape of these blocks is checked in `validate/`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import lru_cache
from typing import Any, Final

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
from everturn.twin.validate.blocks import THINKING
from everturn.twin.validate.message_facts import collect_message_facts, compute_binding_digest
from everturn.twin.values import ApiError, ParsedBlock, ParsedMessage, ParsedRequest, invalid_request

__all__ = ["CheckedThinking", "binding_prefix", "check_thinking", "sign", "sign_compaction", "sign_reply"]

# From this day on accounts have their thinking bound on every model that binds; newer models bind for all.
_BOUND_ACCOUNTS_SINCE: Final = date(2026, 8, 31)
_BOUND_FOR_ALL_SINCE: Final = date(2026, 11, 1)
# Haiku 5.5 shows its thinking to every model and reads no other's.
_READS_ONLY_ITSELF: Final = "claude-haiku-5-5"
_READ_BY_ALL: Final = "claude-haiku-5-5"

_MODIFIED: Final = (
    "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. "
    "These blocks must remain as they were in the original response."
)
_BOUND_ELSEWHERE: Final = (
    "Invalid `signature` in `thinking` block. The block is bound to a different conversation. Remove the "
    'block, or set `thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
)


@dataclass(frozen=True, slots=True)
class CheckedThinking:
    """The request as the model sees it, and what was taken out of it (`input_transformations`)."""

    request: ParsedRequest
    transformations: tuple[dict[str, str], ...] = ()


class BindingDigest:
    """The running digest of what thinking is bound to, block by block.

    Each step hashes the step before, so that a compaction block can carry the state it stands for.
    """

    def __init__(self, request: ParsedRequest) -> None:
        self._base = _section_digest(request.tools) + _section_digest(request.system)
        self.state = EMPTY_DIGEST

    def add(self, role: str, block_bond: bytes) -> None:
        self.state = digest(self.state + role.encode() + block_bond)

    def compacted(self, body: Mapping[str, Any], block_bond: bytes) -> None:
        """Behind a summary the messages it replaces no longer count; one that failed replaces nothing."""
        if body.get("content") is None:
            return
        seal = decode_signature(body.get("signature") or "")
        self.state = seal.prefix if seal is not None else digest(block_bond)

    def prefix(self) -> bytes:
        return digest(self._base + self.state)


@lru_cache(maxsize=1_000)
def _joined(bonds: tuple[bytes, ...]) -> bytes:
    return digest(b"".join(bonds))


def _section_digest(sent: Sequence[ParsedBlock]) -> bytes:
    return _joined(tuple(block.digest for block in sent))


def link(signature: str) -> bytes:
    """How a thinking block names the one before it."""
    return text_digest(signature)


def _signature(body: Mapping[str, Any]) -> str:
    return body["data"] if body["type"] == "redacted_thinking" else body["signature"]


# --- signing a reply


def sign_reply(content: Sequence[dict[str, Any]], request: ParsedRequest) -> tuple[dict[str, Any], ...]:
    """The reply to `request`, as `check_thinking` left it: thinking signed, and blanked where omitted."""
    if not any(block["type"] in THINKING for block in content):
        return tuple(content)
    conversation, chain = _end_of(request)
    omitted = (request.body.get("thinking") or {}).get("display") == "omitted"
    signed: list[dict[str, Any]] = []
    for block in content:
        kind = block["type"]
        if kind in THINKING:
            prefix = conversation.prefix() if request.model.binds_thinking else EMPTY_DIGEST
            block = _sealed(block, request, prefix=prefix, chain=chain, omitted=omitted)
            chain = link(_signature(block))
        elif kind == "compaction":
            conversation.compacted(block, compute_binding_digest(block))
        else:
            conversation.add("assistant", compute_binding_digest(block))
        signed.append(block)
    return tuple(signed)


def _sealed(
    block: dict[str, Any], request: ParsedRequest, *, prefix: bytes, chain: bytes, omitted: bool
) -> dict[str, Any]:
    owner = {"model": request.model, "workspace": request.workspace, "prefix": prefix, "chain": chain}
    if block["type"] == "redacted_thinking":
        return {**block, "data": sign(block.get("data", ""), kind="redacted", **owner)}
    words = block.get("thinking", "")
    if omitted:
        return {**block, "thinking": "", "signature": sign(words, kind="omitted", **owner)}
    return {**block, "thinking": words, "signature": sign(words, **owner)}


def sign_compaction(block: dict[str, Any], request: ParsedRequest) -> dict[str, Any]:
    """The block that stands for all messages of `request`; thinking behind it stays bound to them."""
    conversation, _ = _end_of(request)
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
    return _joined(tuple(compute_binding_digest(change) for change in block.get("tool_changes") or ()))


def binding_prefix(request: ParsedRequest, upto: int | None = None) -> bytes:
    """What thinking that follows the first `upto` messages is bound to."""
    conversation, _ = _end_of(request if upto is None else replace(request, messages=request.messages[:upto]))
    return conversation.prefix()


def _end_of(request: ParsedRequest) -> tuple[BindingDigest, bytes]:
    conversation = BindingDigest(request)
    chain = EMPTY_DIGEST
    for _, _, message, block, block_bond in _walk(request):
        if block.kind in THINKING:
            chain = link(_signature(block.body))
        elif block.kind == "compaction":
            conversation.compacted(block.body, block_bond)
        elif request.model.binds_thinking or request.body.get("compaction") is not None:
            conversation.add(message.role, block_bond)
    return conversation, chain


def _walk(request: ParsedRequest) -> Iterator[tuple[int, int, ParsedMessage, ParsedBlock, bytes]]:
    for index, message in enumerate(request.messages):
        found = collect_message_facts(message, index)
        for at, block in enumerate(message.blocks):
            yield index, at, message, block, found.binding_digests[at]


# --- checking what comes back


def check_thinking(request: ParsedRequest, options: TwinOptions) -> CheckedThinking:
    """Thinking and summaries as they were signed; raises Refusal where the API would."""
    facts = [collect_message_facts(message, index) for index, message in enumerate(request.messages)]
    if not any(found.thinking or found.compactions for found in facts):
        return CheckedThinking(request)
    check = _Check(request, options)
    for index, at, message, block, block_bond in _walk(request):
        if block.kind in THINKING:
            check.thinking(index, at, block)
            continue
        check.ends_a_run()
        if block.kind == "compaction":
            _check_summary(block, options)
            check.conversation.compacted(block.body, block_bond)
        elif check.binds:
            check.conversation.add(message.role, block_bond)
    return CheckedThinking(_without(request, check.dropped), tuple(check.transformations))


class _Check:
    def __init__(self, request: ParsedRequest, options: TwinOptions) -> None:
        self.request = request
        self.options = options
        self.binds = request.model.binds_thinking
        self.conversation = BindingDigest(request)
        self.dropped: set[tuple[int, int]] = set()
        self.transformations: list[dict[str, str]] = []
        self._kept: bytes = EMPTY_DIGEST
        answers = (i for i, message in enumerate(request.messages) if message.role == "assistant")
        self._latest = max(answers, default=-1)
        self._run_is_dropped = False
        self._before: tuple[int, SignatureRecord | None, str] | None = None

    def ends_a_run(self) -> None:
        self._run_is_dropped = False

    def thinking(self, index: int, at: int, block: ParsedBlock) -> None:
        signature = _signature(block.body)
        seal = decode_signature(signature)
        if seal is None or (seal.kind == "redacted") != (block.kind == "redacted_thinking"):
            seal = None
            if self.options.foreign_signatures == "reject":
                raise self._invalid(index, at, block)
        elif self._modified(index, seal, block):
            raise self._altered(index, at, block)
        self._before = (index, seal, signature)
        if seal is None or self._fits(index, at, seal):
            self._kept = link(signature)

    def _modified(self, index: int, seal: SignatureRecord, block: ParsedBlock) -> bool:
        """Other text than was signed, or, in the latest message, another order."""
        if seal.kind == "thinking" and seal.text != text_digest(block.body["thinking"]):
            return True
        before = self._before
        if index != self._latest or before is None or before[0] != index or before[1] is None:
            return False
        return seal.chain != link(before[2]) and not self._run_is_dropped

    def _altered(self, index: int, at: int, block: ParsedBlock) -> ApiError:
        if index == self._latest:
            return invalid_request(f"messages.{index}.content.{at}: {_MODIFIED}")
        return self._invalid(index, at, block)

    def _invalid(self, index: int, at: int, block: ParsedBlock) -> ApiError:
        field = "data" if block.kind == "redacted_thinking" else "signature"
        return invalid_request(f"messages.{index}.content.{at}: Invalid `{field}` in `{block.kind}` block")

    def _fits(self, index: int, at: int, seal: SignatureRecord) -> bool:
        """Whether the model is shown the block."""
        if not can_read_thinking(seal.model, self.request.model):
            self._drop(index, at, "model_binding_mismatch")
            return False
        if not self.binds or not seal.model.binds_thinking or not self._mismatched(seal):
            return True
        if not self._enforced():
            self._note("thinking_mismatch_allowed", index, at, "prefix_binding_mismatch")
            return True
        if _on_mismatch(self.request) == "error":
            raise invalid_request(f"messages.{index}.content.{at}: {self._bound_elsewhere()}")
        self._drop(index, at, "prefix_binding_mismatch")
        self._run_is_dropped = True
        return False

    def _mismatched(self, seal: SignatureRecord) -> bool:
        if self._run_is_dropped or seal.prefix != self.conversation.prefix():
            return True
        return self._kept not in (EMPTY_DIGEST, seal.chain)

    def _enforced(self) -> bool:
        return (
            self.options.account_created >= _BOUND_ACCOUNTS_SINCE
            or self.request.model.released >= _BOUND_FOR_ALL_SINCE
        )

    def _bound_elsewhere(self) -> str:
        if betas.has_beta(self.request, betas.BINDING_CONTROLS):
            return _BOUND_ELSEWHERE
        header = betas.BINDING_CONTROLS[0]
        return (
            f"{_BOUND_ELSEWHERE} That setting requires the `{header}` value in the `anthropic-beta` header."
        )

    def _drop(self, index: int, at: int, reason: str) -> None:
        self.dropped.add((index, at))
        self._note("thinking_dropped", index, at, reason)

    def _note(self, kind: str, index: int, at: int, reason: str) -> None:
        path = f"messages.{index}.content.{at}"
        self.transformations.append({"type": kind, "path": path, "reason": reason})


def _on_mismatch(request: ParsedRequest) -> str:
    binding = (request.body.get("thinking") or {}).get("block_binding") or {}
    return binding.get("prefix_mismatch_behavior") or "error"


def can_read_thinking(made_by: Model, reader: Model) -> bool:
    """Whose thinking a model may read (api-facts 7): its own; from 5.1 on also that of older models."""
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
    seal = decode_signature(signature)
    if seal is None or seal.kind != "compaction":
        if options.foreign_signatures == "reject":
            raise _summary_refused("signature is not valid", "compaction_signature_invalid")
        return
    if seal.text != text_digest(block.body.get("content") or ""):
        raise _summary_refused("content differs from what was signed", "compaction_content_mismatch")
    if seal.chain != _changes(block.body):
        raise _summary_refused("tool_changes differ from those signed", "compaction_tool_changes_mismatch")


def _summary_refused(what: str, error_code: str) -> ApiError:
    return invalid_request(
        f"messages.0.content.0: `compaction` block {what}; send the block back as it was returned",
        error_code=error_code,
    )


def _without(request: ParsedRequest, dropped: set[tuple[int, int]]) -> ParsedRequest:
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
