"""Message batches: create, list, retrieve, results, cancel, delete (`/v1/messages/batches`).

A batch ends when the twin's clock says so, `batch_seconds` after it was created. Its requests are answered at
that moment, each as an ordinary request at half the price. A canceled batch ends at the next look at it, and
none of its requests is answered.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from everturn.twin.clock import format_time
from everturn.twin.options import TwinOptions
from everturn.twin.paging import read_limit
from everturn.twin.values import ApiError, ParsedRequest, invalid_request

BATCHES_PATH: Final = "/v1/messages/batches"
MAX_BATCH_BYTES: Final = 256 * 1024 * 1024
MAX_REQUESTS: Final = 100_000
_EXPIRES_AFTER: Final = timedelta(hours=24)
_CUSTOM_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")


class _BatchItem(msgspec.Struct, forbid_unknown_fields=True):
    custom_id: str
    params: msgspec.Raw


class _BatchBody(msgspec.Struct, forbid_unknown_fields=True):
    requests: list[_BatchItem]


_decode = msgspec.json.Decoder(_BatchBody).decode


@dataclass(frozen=True, slots=True)
class MessageBatch:
    """A batch with its requests; `results` are set when it has ended."""

    id: str
    workspace: str
    created: datetime
    headers: Mapping[str, str]
    requests: tuple[tuple[str, bytes], ...]
    canceled: datetime | None = None
    ended: datetime | None = None
    results: tuple[dict[str, Any], ...] = ()


# Answers one request of a batch at a time: the batch, the request, the time.
AnswerItem = Callable[[MessageBatch, bytes, datetime], dict[str, Any]]


class MessageBatches:
    """The batches of all workspaces, in the order in which they were created."""

    def __init__(self, options: TwinOptions, answer: AnswerItem) -> None:
        self._options = options
        self._answer = answer
        self._batches: dict[str, MessageBatch] = {}

    def create(
        self, workspace: str, headers: Mapping[str, str], body: bytes, *, id: str, now: datetime
    ) -> MessageBatch:
        batch = MessageBatch(id, workspace, now, dict(headers), parse_batch(body))
        self._batches[id] = batch
        return batch

    def settle(self, now: datetime) -> None:
        """End the batches whose time has come."""
        for batch in list(self._batches.values()):
            if batch.ended is None and (end := self._find_end(batch, now)) is not None:
                self._batches[batch.id] = self._end(batch, end)

    def get(self, workspace: str, id: str) -> MessageBatch:
        batch = self._batches.get(id)
        if batch is None or batch.workspace != workspace:
            raise ApiError(404, "not_found_error", f"Message batch {id} not found.")
        return batch

    def cancel(self, workspace: str, id: str, now: datetime) -> MessageBatch:
        batch = self.get(workspace, id)
        if batch.ended is not None:
            raise invalid_request(f"Message batch {id} has ended and cannot be canceled.")
        if batch.canceled is None:
            batch = self._batches[id] = replace(batch, canceled=now)
        return batch

    def delete(self, workspace: str, id: str) -> dict[str, Any]:
        if self.get(workspace, id).ended is None:
            raise invalid_request(
                f"Message batch {id} is being processed. Cancel it, or wait until it has ended, to delete it."
            )
        del self._batches[id]
        return {"id": id, "type": "message_batch_deleted"}

    def results(self, workspace: str, id: str) -> bytes:
        """One JSON object per line, in the order of the requests."""
        batch = self.get(workspace, id)
        if batch.ended is None:
            raise ApiError(404, "not_found_error", f"Message batch {id} has no results until it has ended.")
        return b"".join(msgspec.json.encode(result) + b"\n" for result in batch.results)

    def page(self, workspace: str, query: Mapping[str, str]) -> tuple[list[MessageBatch], bool]:
        """One page of the workspace's batches, newest first, and whether there are more."""
        found = [batch for batch in reversed(self._batches.values()) if batch.workspace == workspace]
        limit = read_limit(query.get("limit"))
        if (after := query.get("after_id")) is not None:
            found = found[_index(found, after, "after_id") + 1 :]
        elif (before := query.get("before_id")) is not None:
            found = found[: _index(found, before, "before_id")]
            return found[-limit:], len(found) > limit
        return found[:limit], len(found) > limit

    def _find_end(self, batch: MessageBatch, now: datetime) -> datetime | None:
        if batch.canceled is not None:
            return batch.canceled
        end = batch.created + min(timedelta(seconds=self._options.batch_seconds), _EXPIRES_AFTER)
        return end if now >= end else None

    def _end(self, batch: MessageBatch, end: datetime) -> MessageBatch:
        expires = self._options.batch_seconds > _EXPIRES_AFTER.total_seconds()
        results: list[dict[str, Any]] = []
        for custom_id, request in batch.requests:
            if batch.canceled is not None or expires:
                result = {"type": "canceled" if batch.canceled is not None else "expired"}
            else:
                result = self._answer(batch, request, end)
            results.append({"custom_id": custom_id, "result": result})
        return replace(batch, ended=end, results=tuple(results))


def parse_batch(body: bytes) -> tuple[tuple[str, bytes], ...]:
    """The requests of a batch. Only their ids are checked: an invalid request is an errored result."""
    try:
        sent = _decode(body).requests
    except msgspec.ValidationError as error:
        raise invalid_request(f"requests: {error}") from None
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise invalid_request(f"The request body is not valid JSON: {error}") from None
    if not 1 <= len(sent) <= MAX_REQUESTS:
        raise invalid_request(f"requests: List should have 1 to {MAX_REQUESTS} items, not {len(sent)}")
    seen: set[str] = set()
    for index, item in enumerate(sent):
        if not _CUSTOM_ID.match(item.custom_id):
            raise invalid_request(
                f"requests.{index}.custom_id: String should match pattern '^[a-zA-Z0-9_-]{{1,64}}$'"
            )
        if item.custom_id in seen:
            raise invalid_request(f"requests.{index}.custom_id: Duplicate custom_id `{item.custom_id}`")
        seen.add(item.custom_id)
    return tuple((item.custom_id, bytes(item.params)) for item in sent)


def check_batch_item(request: ParsedRequest) -> None:
    """What a request in a batch cannot ask for."""
    if request.streams:
        raise invalid_request("stream: Streaming is not supported in message batches")
    if request.body.get("max_tokens") == 0:
        raise invalid_request("max_tokens: 0 is not supported in message batches")


def describe_batch(batch: MessageBatch, *, base_url: str) -> dict[str, Any]:
    """A batch in the API's format."""
    ended = batch.ended is not None
    status = "ended" if ended else "canceling" if batch.canceled is not None else "in_progress"
    return {
        "id": batch.id,
        "type": "message_batch",
        "processing_status": status,
        "request_counts": _counts(batch),
        "ended_at": _time(batch.ended),
        "created_at": format_time(batch.created),
        "expires_at": format_time(batch.created + _EXPIRES_AFTER),
        "archived_at": None,
        "cancel_initiated_at": _time(batch.canceled),
        "results_url": f"{base_url}{BATCHES_PATH}/{batch.id}/results" if ended else None,
    }


def describe_page(page: Sequence[MessageBatch], *, more: bool, base_url: str) -> dict[str, Any]:
    return {
        "data": [describe_batch(batch, base_url=base_url) for batch in page],
        "has_more": more,
        "first_id": page[0].id if page else None,
        "last_id": page[-1].id if page else None,
    }


def _counts(batch: MessageBatch) -> dict[str, int]:
    """All requests are processing until the whole batch has ended."""
    kinds = [item["result"]["type"] for item in batch.results]
    processing = len(batch.requests) if batch.ended is None else 0
    counts = {kind: kinds.count(kind) for kind in ("succeeded", "errored", "canceled", "expired")}
    return {"processing": processing, **counts}


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else format_time(moment)


def _index(found: Sequence[MessageBatch], id: str, name: str) -> int:
    for index, batch in enumerate(found):
        if batch.id == id:
            return index
    raise invalid_request(f"{name}: no message batch has the id {id}")
