"""The ledger: every request with its usage, cache result and price (TW-3); failed ones with zero usage."""

from datetime import UTC, datetime
from typing import Any

from everturn.measure.prefix_cache import CacheEntry, CacheLookup
from everturn.measure.pricing import PricedUsage, PriceLine
from everturn.twin.clock import format_time
from everturn.twin.json_values import as_object
from everturn.twin.values import ApiError, ParsedRequest

NO_USAGE: dict[str, int] = {
    "input_tokens": 0,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 0,
    "output_tokens": 0,
}


class RequestLedger:
    """One entry per request, in order."""

    def __init__(self) -> None:
        self._entries: list[dict[str, Any]] = []

    def entries(self, workspace: str | None = None) -> list[dict[str, Any]]:
        return [entry for entry in self._entries if workspace in (None, entry["workspace"])]

    def record_response(
        self,
        request: ParsedRequest,
        *,
        id: str,
        at: datetime,
        body: dict[str, Any],
        bill: PricedUsage,
        lookups: tuple[CacheLookup, ...],
    ) -> None:
        entry = _new_entry(id, at, request.workspace, request.endpoint, 200, _model_name(request))
        entry["message_id"] = body.get("id")
        entry["usage"] = body["usage"]
        entry["dollars"] = float(bill.dollars)
        entry["lines"] = [_line(line) for line in bill.lines]
        # The last lookup is that of the reply; a compaction before it has its own.
        entry["cache"] = _cache(lookups[-1]) if lookups else None
        entry["cache_iterations"] = [_cache(lookup) for lookup in lookups]
        entry["applied_edits"] = as_object(body.get("context_management")).get("applied_edits", [])
        entry["stop_reason"] = body.get("stop_reason")
        self._entries.append(entry)

    def record_error(
        self, error: ApiError, *, id: str, at: datetime, workspace: str, endpoint: str, model: str | None
    ) -> None:
        entry = _new_entry(id, at, workspace, endpoint, error.status, model)
        entry["error"] = {"type": error.kind, "message": error.message, "error_code": error.error_code}
        self._entries.append(entry)

    def record_count(self, request: ParsedRequest, *, id: str, at: datetime) -> None:
        """Record a count_tokens request, which is free."""
        self._entries.append(
            _new_entry(id, at, request.workspace, request.endpoint, 200, _model_name(request))
        )


def _new_entry(
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


def _cache(lookup: CacheLookup) -> dict[str, Any]:
    return {
        "hit_position": lookup.hit,
        "read_tokens": lookup.read,
        "write_1h_tokens": lookup.write_1h,
        "write_5m_tokens": lookup.write_5m,
        "input_tokens": lookup.plain,
        "written": [_entry(entry) for entry in lookup.written],
        "refreshed": _entry(lookup.refreshed) if lookup.refreshed is not None else None,
    }


def _entry(entry: CacheEntry) -> dict[str, Any]:
    return {
        "position": entry.index,
        "tokens": entry.tokens,
        "ttl": entry.ttl,
        "expires": format_time(datetime.fromtimestamp(entry.expires, UTC)),
    }
