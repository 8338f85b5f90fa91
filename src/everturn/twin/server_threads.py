"""Conversations stored on the server: `thread: create`, then `continue` with new messages (api-facts 2.6).

A stored conversation is the client's request plus the reply. `resolve` turns a `continue` into the complete
request, so that validation, cache and billing work as for any other request. Each reply can be continued
once, within five minutes.
"""

from dataclasses import dataclass, replace
from typing import Any, Final

from everturn.twin.parse import parse_content
from everturn.twin.values import ApiError, ParsedBlock, ParsedMessage, ParsedRequest, invalid_request

KEEPS_SECONDS: Final = 300.0
# The API keeps threads as long as it can; the twin keeps this many.
MAX_THREADS = 1_000
# Fixed when the thread is created. If a `continue` sends them again, they must be equal.
CREATE_ONLY: Final = ("system", "tools")


@dataclass(slots=True)
class _StoredThread:
    request: ParsedRequest
    reply: ParsedMessage
    at: float
    continued: bool = False


class ServerThreads:
    """The stored conversations, by workspace and message id."""

    def __init__(self) -> None:
        self._stored: dict[tuple[str, str], _StoredThread] = {}
        # The thread that the current request continues; requests are handled one at a time.
        self._resumed: _StoredThread | None = None

    def resolve(self, request: ParsedRequest, now: float) -> ParsedRequest:
        """The complete request for a `continue`; any other request unchanged."""
        self._resumed = None
        thread = request.get_object("thread")
        if thread.get("type") != "continue":
            return request
        stored = self._find(request, str(thread.get("previous_message_id")), now)
        if any(ours and ours != theirs for ours, theirs in _create_only_digests(request, stored.request)):
            message = "thread: `system` and `tools` cannot change in a thread"
            raise invalid_request(message, error_code="thread_fingerprint_mismatch")
        self._resumed = stored
        return replace(
            request,
            # Validated like a request that starts a thread, because its history is complete now.
            body=request.body | {"thread": {"type": "create"}},
            system=stored.request.system,
            tools=stored.request.tools,
            messages=(*stored.request.messages, stored.reply, *request.messages),
        )

    def hold(self, request: ParsedRequest, body: dict[str, Any], now: float) -> None:
        """Store the conversation under the id of its reply, if the request has `thread`."""
        if not isinstance(request.body.get("thread"), dict):
            return
        self._forget(now)
        if self._resumed is not None:
            self._resumed.continued = True
        kept = replace(request, messages=tuple(_without_breakpoints(message) for message in request.messages))
        reply = ParsedMessage("assistant", parse_content(body["content"], "content"))
        self._stored[request.workspace, body["id"]] = _StoredThread(kept, reply, now)

    def _find(self, request: ParsedRequest, id: str, now: float) -> _StoredThread:
        stored = self._stored.get((request.workspace, id))
        if stored is None or now - stored.at > KEEPS_SECONDS:
            message = f"thread: no thread was found for {id}; send the whole conversation to create a new one"
            raise ApiError(404, "not_found_error", message, error_code="thread_not_found")
        if stored.continued:
            message = f"thread: {id} was continued already; each response can be continued once"
            raise invalid_request(message, error_code="thread_already_continued")
        return stored

    def _forget(self, now: float) -> None:
        """Forget the oldest ones that are too old or too many. They are in the order of their times."""
        while self._stored:
            key, stored = next(iter(self._stored.items()))
            if now - stored.at <= KEEPS_SECONDS and len(self._stored) < MAX_THREADS:
                return
            del self._stored[key]


def _without_breakpoints(message: ParsedMessage) -> ParsedMessage:
    """Without breakpoints: they apply only to the request that set them, and a request may have only four."""
    if not any(block.cache_ttl for block in message.blocks):
        return message
    return replace(message, blocks=tuple(_without_breakpoint(block) for block in message.blocks))


def _without_breakpoint(block: ParsedBlock) -> ParsedBlock:
    body = {name: value for name, value in block.body.items() if name != "cache_control"}
    return replace(block, body=body, cache_ttl=None)


def _create_only_digests(request: ParsedRequest, stored: ParsedRequest) -> list[tuple[Any, Any]]:
    pairs = [(getattr(request, name), getattr(stored, name)) for name in CREATE_ONLY]
    return [([b.digest for b in ours], [b.digest for b in theirs]) for ours, theirs in pairs]
