"""Cache diagnostics: compare the structure of a request with an earlier one (TW-5, api-facts 3).

The comparison does not depend on whether the cache was hit. Fingerprints are stored for requests with a
`diagnostics` object, for a limited time, separately for each workspace.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from everturn.twin.options import TwinOptions
from everturn.twin.request_layout import RequestLayout, prompt_parameters
from everturn.twin.values import ParsedRequest

# The clock may never move, so that nothing becomes too old; the number is limited too.
MAX_FINGERPRINTS: Final = 1_000
_NOT_FOUND: Final = {"type": "previous_message_not_found"}
_UNAVAILABLE: Final = {"type": "unavailable"}

_encode = msgspec.json.Encoder(order="deterministic").encode


@dataclass(frozen=True, slots=True)
class FingerprintBlock:
    """One block of a section, and its tokens."""

    digest: bytes
    tokens: int


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The structure of one request."""

    at: float
    model: tuple[str, str]
    system: tuple[FingerprintBlock, ...]
    tools: tuple[FingerprintBlock, ...]
    messages: tuple[FingerprintBlock, ...]
    shape: bytes


def compute_fingerprint(request: ParsedRequest, layout: RequestLayout, now: float) -> Fingerprint:
    parts: dict[str, list[FingerprintBlock]] = {"tools": [], "system": [], "messages": []}
    for placed in layout.blocks:
        role = request.messages[placed.message].role if placed.section == "messages" else ""
        parts[placed.section].append(FingerprintBlock(role.encode() + placed.block.digest, placed.tokens))
    return Fingerprint(
        at=now,
        model=(request.model.id, str(request.body.get("speed") or "standard")),
        system=tuple(parts["system"]),
        tools=tuple(parts["tools"]),
        messages=tuple(parts["messages"]),
        # The API has no specific reason for a difference in these.
        shape=_encode(
            [*prompt_parameters(request), request.body.get("context_management"), sorted(request.betas)]
        ),
    )


def diagnose(before: Fingerprint, now: Fingerprint, options: TwinOptions) -> dict[str, Any] | None:
    """The first difference, in the order model, system, tools, messages; None if there is none."""
    everything = [*before.tools, *before.system, *before.messages]
    if before.model != now.model:
        return _missed("model_changed", everything)
    tools_differ = _digests(before.tools) != _digests(now.tools)
    if tools_differ and options.diagnosis_order == "tools_first":
        return _missed("tools_changed", everything)
    if _digests(before.system) != _digests(now.system):
        return _missed("system_changed", [*before.system, *before.messages])
    if tools_differ:
        return _missed("tools_changed", everything)
    same = _common(before.messages, now.messages)
    if same < len(before.messages):
        return _missed("messages_changed", before.messages[same:])
    return None if before.shape == now.shape else dict(_UNAVAILABLE)


def _digests(parts: Sequence[FingerprintBlock]) -> list[bytes]:
    return [part.digest for part in parts]


def _common(before: Sequence[FingerprintBlock], now: Sequence[FingerprintBlock]) -> int:
    pairs = zip(before, now, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a.digest != b.digest), min(len(before), len(now)))


def _missed(kind: str, parts: Sequence[FingerprintBlock]) -> dict[str, Any]:
    return {"type": kind, "cache_missed_input_tokens": sum(part.tokens for part in parts)}


class FingerprintStore:
    """The stored fingerprints, by workspace and message id."""

    def __init__(self, options: TwinOptions) -> None:
        self._options = options
        self._keeps = options.diagnosis_keeps_seconds
        self._known: dict[tuple[str, str], Fingerprint] = {}

    def compare(self, request: ParsedRequest, present: Fingerprint) -> dict[str, Any] | None:
        """The `diagnostics` of the response: None if none were requested or nothing differs."""
        previous = request.get_object("diagnostics").get("previous_message_id")
        if not isinstance(previous, str):
            return None
        before = self._known.get((request.workspace, previous))
        if before is None or present.at - before.at > self._keeps:
            return {"cache_miss_reason": dict(_NOT_FOUND)}
        reason = diagnose(before, present, self._options)
        return None if reason is None else {"cache_miss_reason": reason}

    def remember(self, request: ParsedRequest, message_id: str, present: Fingerprint) -> None:
        if isinstance(request.body.get("diagnostics"), dict):
            self._known[request.workspace, message_id] = present
            self._forget_old(present.at)

    def _forget_old(self, now: float) -> None:
        """Forget the oldest ones that are too old or too many. They are in the order of their times."""
        while self._known:
            key, old = next(iter(self._known.items()))
            if now - old.at <= self._keeps and len(self._known) <= MAX_FINGERPRINTS:
                return
            del self._known[key]
