"""The ledger: every request with its usage, cache result and price (TW-3); failed ones with zero usage."""

from collections import deque
from datetime import UTC, datetime
from hashlib import blake2b
from operator import is_
from typing import Any, Final, NamedTuple

from everturn.measure.model_table import Model
from everturn.measure.prefix_cache import CacheEntry, CacheLookup
from everturn.measure.pricing import PriceLine, compute_priced_usage
from everturn.twin.clock import format_time
from everturn.twin.values import ApiError, ParsedRequest
from everturn.wire.json_values import as_object

DEFAULT_LEDGER_SIZE: Final = 10_000
NO_USAGE: dict[str, int] = {
    "input_tokens": 0,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 0,
    "output_tokens": 0,
}


class RequestLedger:
    """One entry per request, in order; when it is full, the oldest ones are dropped.

    An entry is built when it is first listed: until then its values take a quarter of the memory.
    """

    def __init__(self, size: int = DEFAULT_LEDGER_SIZE) -> None:
        self._entries: deque[dict[str, Any] | _Answered] = deque(maxlen=size)

    def entries(self, workspace: str | None = None) -> list[dict[str, Any]]:
        """The entries of all workspaces, or of one, which is given by its id or its key."""
        built = [each if isinstance(each, dict) else _build_entry(each) for each in self._entries]
        if not all(map(is_, built, self._entries)):
            self._entries = deque(built, maxlen=self._entries.maxlen)
        if workspace is None:
            return built
        wanted = (workspace, workspace_id(workspace))
        return [entry for entry in built if entry["workspace"] in wanted]

    def record_response(
        self,
        request: ParsedRequest,
        *,
        id: str,
        at: datetime,
        body: dict[str, Any],
        lookups: tuple[CacheLookup, ...],
        batch_id: str | None = None,
    ) -> None:
        self._entries.append(
            _Answered(
                id,
                at,
                request.workspace,
                request.endpoint,
                _model_name(request),
                request.model,
                batch_id,
                body.get("id"),
                body["usage"],
                lookups,
                as_object(body.get("context_management")).get("applied_edits", []),
                body.get("stop_reason"),
            )
        )

    def record_error(
        self,
        error: ApiError,
        *,
        id: str,
        at: datetime,
        workspace: str,
        endpoint: str,
        model: str | None,
        batch_id: str | None = None,
    ) -> None:
        what = {"type": error.kind, "message": error.message, "error_code": error.error_code}
        self._entries.append(
            _new_entry(id, at, workspace, endpoint, error.status, model)
            | {"batch_id": batch_id, "error": what}
        )

    def record_count(self, request: ParsedRequest, *, id: str, at: datetime) -> None:
        """Record a count_tokens request, which is free."""
        self._entries.append(
            _new_entry(id, at, request.workspace, request.endpoint, 200, _model_name(request))
        )


class _Answered(NamedTuple):
    """A request with a reply, as it was recorded."""

    id: str
    at: datetime
    workspace: str
    endpoint: str
    model_name: str
    model: Model
    batch_id: str | None
    message_id: str | None
    usage: dict[str, Any]
    lookups: tuple[CacheLookup, ...]
    applied_edits: list[dict[str, Any]]
    stop_reason: str | None


def _build_entry(row: _Answered) -> dict[str, Any]:
    bill = compute_priced_usage(row.usage, row.model, on=row.at.date())
    entry = _new_entry(row.id, row.at, row.workspace, row.endpoint, 200, row.model_name)
    return entry | {
        "batch_id": row.batch_id,
        "message_id": row.message_id,
        "usage": row.usage,
        "dollars": float(bill.dollars),
        "lines": [_line(line) for line in bill.lines],
        # The last lookup is that of the reply; a compaction before it has its own.
        "cache": _cache(row.lookups[-1]) if row.lookups else None,
        "cache_iterations": [_cache(lookup) for lookup in row.lookups],
        "applied_edits": row.applied_edits,
        "stop_reason": row.stop_reason,
    }


def workspace_id(key: str) -> str:
    """The id of a workspace, derived from its API key. The key itself is in no output; "" for no key."""
    if not key:
        return ""
    return f"wrkspc_{blake2b(key.encode(errors='surrogatepass'), digest_size=12).hexdigest()}"


def _new_entry(
    id: str, at: datetime, workspace: str, endpoint: str, status: int, model: str | None
) -> dict[str, Any]:
    """An entry with every key, for a request that was free and had no reply."""
    return {
        "id": id,
        "time": format_time(at),
        "workspace": workspace_id(workspace),
        "model": model,
        "endpoint": endpoint,
        "batch_id": None,
        "status": status,
        "message_id": None,
        "usage": dict(NO_USAGE),
        "dollars": 0.0,
        "lines": [],
        "cache": None,
        "cache_iterations": [],
        "applied_edits": [],
        "stop_reason": None,
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
