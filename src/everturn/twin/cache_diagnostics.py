"""Why the cache could not be used: the structure of a request against an earlier one (TW-5, api-facts 3).

Structure only, independent of whether the cache was hit. Fingerprints are kept for requests that carried a
`diagnostics` object, for a while, and never across workspaces.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from everturn.twin.options import TwinOptions
from everturn.twin.request_layout import RequestLayout, prompt_parameters
from everturn.twin.values import ParsedRequest

_NOT_FOUND: Final = {"type": "previous_message_not_found"}
_UNAVAILABLE: Final = {"type": "unavailable"}

_encode = msgspec.json.Encoder(order="deterministic").encode


@dataclass(frozen=True, slots=True)
class FingerprintBlock:
    """One block of a section, and what it costs."""

    digest: bytes
    tokens: int


@dataclass(frozen=True, slots=True)
class Fingerprint:
    at: float
    model: tuple[str, str]
    system: tuple[FingerprintBlock, ...]
    tools: tuple[FingerprintBlock, ...]
    messages: tuple[FingerprintBlock, ...]
    shape: bytes


def compute_fingerprint(request: ParsedRequest, layout: RequestLayout, now: float) -> Fingerprint:
    parts: dict[str, list[FingerprintBlock]] = {"tools": [], "system": [], "messages": []}
    for piece in layout.pieces:
        role = request.messages[piece.message].role if piece.section == "messages" else ""
        parts[piece.section].append(FingerprintBlock(role.encode() + piece.block.digest, piece.tokens))
    return Fingerprint(
        at=now,
        model=(request.model.id, str(request.body.get("speed") or "standard")),
        system=tuple(parts["system"]),
        tools=tuple(parts["tools"]),
        messages=tuple(parts["messages"]),
        # A difference in these has no reason of its own.
        shape=_encode(
            [*prompt_parameters(request), request.body.get("context_management"), sorted(request.betas)]
        ),
    )


def diagnose(before: Fingerprint, now: Fingerprint, options: TwinOptions) -> dict[str, Any] | None:
    """The earliest divergence, in the order model, system, tools, messages; None where there is none."""
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
    """The fingerprints that are still known, by workspace and message id."""

    def __init__(self, options: TwinOptions) -> None:
        self._options = options
        self._keeps = options.diagnosis_keeps_seconds
        self._known: dict[tuple[str, str], Fingerprint] = {}

    def compare(self, request: ParsedRequest, present: Fingerprint) -> dict[str, Any] | None:
        """The `diagnostics` of the response: null where nothing was asked or nothing diverged."""
        asked = request.body.get("diagnostics")
        previous = asked.get("previous_message_id") if isinstance(asked, dict) else None
        if not isinstance(previous, str):
            return None
        before = self._known.get((request.workspace, previous))
        if before is None or present.at - before.at > self._keeps:
            return {"cache_miss_reason": dict(_NOT_FOUND)}
        reason = diagnose(before, present, self._options)
        return None if reason is None else {"cache_miss_reason": reason}

    def remember(self, request: ParsedRequest, message_id: str, present: Fingerprint) -> None:
        if isinstance(request.body.get("diagnostics"), dict):
            self._forget_old(present.at)
            self._known[request.workspace, message_id] = present

    def _forget_old(self, now: float) -> None:
        for key in [key for key, old in self._known.items() if now - old.at > self._keeps]:
            del self._known[key]
