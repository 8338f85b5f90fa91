"""Response bodies in the API's format: messages with their usage, and errors (api-facts 1.8, 5)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from everturn.measure.prefix_cache import CacheLookup
from everturn.twin.values import ApiError, HttpResponse, ModelOutput, ParsedRequest

# With one of these headers every response reports `iterations` (api-facts 2.4).
COMPACTION_BETAS: Final = frozenset(("compact-2026-01-12", "compact-2026-09-04"))
BINDING_BETA: Final = "thinking-binding-controls-2026-08-01"

encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Iteration:
    """One model call inside a request, with its tokens."""

    kind: str
    lookup: CacheLookup
    output: int
    thinking: int = 0


def build_usage(
    request: ParsedRequest, iterations: Sequence[Iteration], *, deleted: int | None = None, searches: int = 0
) -> dict[str, Any]:
    """The `usage` object. Its top level is the last message call; compactions are only in `iterations`."""
    reply = next((part for part in reversed(iterations) if part.kind == "message"), None)
    usage = _tokens(reply)
    usage["output_tokens_details"] = {"thinking_tokens": reply.thinking if reply else 0}
    usage["server_tool_use"] = {"tool_search_requests": searches} if searches else None
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
    lookup = part.lookup if part is not None else CacheLookup(0, 0, 0, 0, None, None, ())
    return {
        "input_tokens": lookup.plain,
        "cache_creation_input_tokens": lookup.write_5m + lookup.write_1h,
        "cache_read_input_tokens": lookup.read,
        "cache_creation": {
            "ephemeral_5m_input_tokens": lookup.write_5m,
            "ephemeral_1h_input_tokens": lookup.write_1h,
        },
        "output_tokens": part.output if part is not None else 0,
    }


def message_body(
    request: ParsedRequest,
    output: ModelOutput,
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
        "content": list(output.content),
        "stop_reason": output.stop_reason,
        "stop_sequence": output.stop_sequence,
        "stop_details": None,
        "usage": usage,
        "diagnostics": diagnostics,
    }
    if request.body.get("context_management") is not None:
        body["context_management"] = {"applied_edits": list(applied)}
    if BINDING_BETA in request.betas and request.model.thinking:
        body["input_transformations"] = list(transformations)
    return body


def build_error_response(error: ApiError, request_id: str) -> HttpResponse:
    content: dict[str, Any] = {"type": error.kind, "message": error.message}
    if error.error_code is not None:
        content["details"] = {"error_code": error.error_code}
    body = {"type": "error", "error": content, "request_id": request_id}
    headers = {"content-type": "application/json", "request-id": request_id, **error.headers}
    return HttpResponse(error.status, headers, encode(body))
