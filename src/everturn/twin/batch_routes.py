"""The paths below `/v1/messages/batches`."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from everturn.twin.batches import BATCHES_PATH, describe_batch, describe_page
from everturn.twin.service import MISSING_KEY_ERROR, Twin, find_workspace
from everturn.twin.values import ApiError, HttpResponse

JSONL: Final = "application/x-jsonl"
_WRONG_METHOD: Final = ApiError(405, "invalid_request_error", "Method Not Allowed")
_NOT_FOUND: Final = ApiError(404, "not_found_error", "Not found")


def serve_batches(
    twin: Twin, method: str, path: str, headers: Mapping[str, str], query: Mapping[str, str], body: bytes
) -> HttpResponse:
    """The response to a request below `/v1/messages/batches`."""
    workspace = find_workspace(headers)
    if workspace is None:
        raise MISSING_KEY_ERROR
    id, _, action = path.removeprefix(BATCHES_PATH).strip("/").partition("/")
    base_url = f"http://{headers.get('host', 'twin')}"
    with twin.lock:
        now = twin.clock.now()
        twin.batches.settle(now)
        match (method, bool(id), action):
            case ("POST", False, ""):
                batch = twin.batches.create(workspace, headers, body, id=twin.new_id("msgbatch_"), now=now)
                made: dict[str, Any] | bytes = describe_batch(batch, base_url=base_url)
            case ("GET", False, ""):
                page, more = twin.batches.page(workspace, query)
                made = describe_page(page, more=more, base_url=base_url)
            case ("GET", True, ""):
                made = describe_batch(twin.batches.get(workspace, id), base_url=base_url)
            case ("DELETE", True, ""):
                made = twin.batches.delete(workspace, id)
            case ("POST", True, "cancel"):
                made = describe_batch(twin.batches.cancel(workspace, id, now), base_url=base_url)
            case ("GET", True, "results"):
                made = twin.batches.results(workspace, id)
            case (_, _, "" | "cancel" | "results"):
                raise _WRONG_METHOD
            case _:
                raise _NOT_FOUND
        return _respond(made, twin.new_request_id())


def _respond(made: dict[str, Any] | bytes, id: str) -> HttpResponse:
    if isinstance(made, bytes):
        return HttpResponse(200, {"content-type": JSONL, "request-id": id}, made)
    return HttpResponse(
        200, {"content-type": "application/json", "request-id": id}, msgspec.json.encode(made)
    )
