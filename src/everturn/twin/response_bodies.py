"""The bodies of answers: messages with their usage, and errors, as the API spells them (api-facts 1.8, 5)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from everturn.measure.prefix_cache import CacheLookup
from everturn.twin.values import ApiError, HttpResponse, ModelOutput, ParsedRequest

# On every response while one of them is on (api-facts 2.4).
COMPACTION_BETAS: Final = frozenset(("compact-2026-01-12", "compact-2026-09-04"))
BINDING_BETA: Final = "thinking-binding-controls-2026-08-01"

encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Iteration:
    """One call of the model inside a request."""

    kind: str
    outcome: CacheLookup
    output: int
    thinking: int = 0


def build_usage(
    request: ParsedRequest, iterations: Sequence[Iteration], *, deleted: int | None = None
) -> dict[str, Any]:
    """Top-level usage is the last message's; compactions stand in `iterations` only."""
    spoken = next((part for part in reversed(iterations) if part.kind == "message"), None)
    usage = _tokens(spoken)
    usage["output_tokens_details"] = {"thinking_tokens": spoken.thinking if spoken else 0}
    usage["server_tool_use"] = None
    usage["service_tier"] = "standard"
    usage["inference_geo"] = request.body.get("inference_geo") or "global"
    if request.body.get("speed"):
        usage["speed"] = request.body["speed"]
    if request.betas & COMPACTION_BETAS or request.body.get("max_tokens") == 0:
        usage["iterations"] = [{"type": part.kind, **_tokens(part)} for part in iterations]
    if deleted is not None:
        usage["cache_deleted_input_tokens"] = deleted
    return usage


def _tokens(part: Iteration | None) -> dict[str, Any]:
    outcome = part.outcome if part is not None else CacheLookup(0, 0, 0, 0, None, None, ())
    return {
        "input_tokens": outcome.plain,
        "cache_creation_input_tokens": outcome.write_5m + outcome.write_1h,
        "cache_read_input_tokens": outcome.read,
        "cache_creation": {
            "ephemeral_5m_input_tokens": outcome.write_5m,
            "ephemeral_1h_input_tokens": outcome.write_1h,
        },
        "output_tokens": part.output if part is not None else 0,
    }


def message_body(
    request: ParsedRequest,
    said: ModelOutput,
    *,
    id: str,
    usage: dict[str, Any],
    diagnostics: dict[str, Any] | None,
    applied: Sequence[dict[str, Any]],
    transformations: Sequence[dict[str, str]],
) -> dict[str, Any]:
    body: dict[str, Any] = {
        "id": id,
        "type": "message",
        "role": "assistant",
        "model": request.body["model"],
        "content": list(said.content),
        "stop_reason": said.stop_reason,
        "stop_sequence": said.stop_sequence,
        "stop_details": None,
        "usage": usage,
        "diagnostics": diagnostics,
    }
    if request.body.get("context_management") is not None:
        body["context_management"] = {"applied_edits": list(applied)}
    if BINDING_BETA in request.betas and request.model.thinking:
        body["input_transformations"] = list(transformations)
    return body


def build_error_response(refusal: ApiError, request_id: str) -> HttpResponse:
    error: dict[str, Any] = {"type": refusal.kind, "message": refusal.message}
    if refusal.error_code is not None:
        error["details"] = {"error_code": refusal.error_code}
    body = {"type": "error", "error": error, "request_id": request_id}
    headers = {"content-type": "application/json", "request-id": request_id, **refusal.headers}
    return HttpResponse(refusal.status, headers, encode(body))
