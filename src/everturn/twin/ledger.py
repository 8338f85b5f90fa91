"""Every request, what it used and what it cost, line by line (TW-3); refused ones with zero usage."""

from datetime import UTC, datetime
from typing import Any

from everturn.measure.prefix_cache import CacheEntry, CacheLookup
from everturn.measure.pricing import PricedUsage, PriceLine
from everturn.twin.clock import format_time
from everturn.twin.values import ApiError, ParsedRequest

NO_USAGE: dict[str, int] = {
    "input_tokens": 0,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 0,
    "output_tokens": 0,
}


class RequestLedger:
    def __init__(self) -> None:
        self._entries: list[dict[str, Any]] = []

    def entries(self, workspace: str | None = None) -> list[dict[str, Any]]:
        return [entry for entry in self._entries if workspace in (None, entry["workspace"])]

    def answered(
        self,
        request: ParsedRequest,
        *,
        id: str,
        at: datetime,
        body: dict[str, Any],
        bill: PricedUsage,
        outcomes: tuple[CacheLookup, ...],
    ) -> None:
        entry = _head(id, at, request.workspace, request.endpoint, 200, _model_name(request))
        entry["message_id"] = body.get("id")
        entry["usage"] = body["usage"]
        entry["dollars"] = float(bill.dollars)
        entry["lines"] = [_line(line) for line in bill.lines]
        # The last one is the reply's own; a compaction before it has one too.
        entry["cache"] = _cache(outcomes[-1]) if outcomes else None
        entry["cache_iterations"] = [_cache(outcome) for outcome in outcomes]
        entry["applied_edits"] = (body.get("context_management") or {}).get("applied_edits", [])
        entry["stop_reason"] = body.get("stop_reason")
        self._entries.append(entry)

    def refused(
        self, refusal: ApiError, *, id: str, at: datetime, workspace: str, endpoint: str, model: str | None
    ) -> None:
        entry = _head(id, at, workspace, endpoint, refusal.status, model)
        entry["error"] = {"type": refusal.kind, "message": refusal.message, "error_code": refusal.error_code}
        self._entries.append(entry)

    def counted(self, request: ParsedRequest, *, id: str, at: datetime) -> None:
        """count_tokens is free; it is listed so that the ledger is complete."""
        self._entries.append(_head(id, at, request.workspace, request.endpoint, 200, _model_name(request)))


def _head(
    id: str, at: datetime, workspace: str, endpoint: str, status: int, model: str | None
) -> dict[str, Any]:
    return {
        "id": id,
        "time": format_time(at),
        "workspace": workspace,
        "model": model,
        "endpoint": endpoint,
        "status": status,
        "usage": dict(NO_USAGE),
        "dollars": 0.0,
        "lines": [],
        "cache": None,
        "applied_edits": [],
        "error": None,
    }


def _model_name(request: ParsedRequest) -> str:
    return str(request.body.get("model", request.model.id))


def _line(line: PriceLine) -> dict[str, Any]:
    return {
        "kind": line.kind,
        "tokens": line.tokens,
        "dollars_per_mtok": float(line.rate),
        "dollars": float(line.dollars),
        "iteration": line.iteration,
    }


def _cache(outcome: CacheLookup) -> dict[str, Any]:
    return {
        "hit_position": outcome.hit,
        "read_tokens": outcome.read,
        "write_1h_tokens": outcome.write_1h,
        "write_5m_tokens": outcome.write_5m,
        "input_tokens": outcome.plain,
        "written": [_entry(entry) for entry in outcome.written],
        "refreshed": _entry(outcome.refreshed) if outcome.refreshed is not None else None,
    }


def _entry(entry: CacheEntry) -> dict[str, Any]:
    return {
        "position": entry.index,
        "tokens": entry.tokens,
        "ttl": entry.ttl,
        "expires": format_time(datetime.fromtimestamp(entry.expires, UTC)),
    }
