"""Conversations the server holds: `thread: create`, then `continue` with new messages only (api-facts 2.6).

A held conversation is what the client sent and what it was answered. `joined` turns a `continue` into the
whole request it stands for, so that everything after it (rules, cache, bill) sees a conversation like any
other. Each answer can be continued once, and is forgotten five minutes after it was given.
"""

from dataclasses import dataclass, replace
from typing import Any, Final

from everturn.twin.parse import parse_content
from everturn.twin.values import ApiError, ParsedBlock, ParsedMessage, ParsedRequest, invalid_request

KEEPS_SECONDS: Final = 300.0
# Fixed when the thread is created. Sent again on a `continue`, they must be the same.
CREATE_ONLY: Final = ("system", "tools")


@dataclass(slots=True)
class _Held:
    request: ParsedRequest
    reply: ParsedMessage
    at: float
    continued: bool = False


class ServerThreads:
    def __init__(self, keeps_seconds: float = KEEPS_SECONDS) -> None:
        self._keeps = keeps_seconds
        self._held: dict[tuple[str, str], _Held] = {}
        # What the request at hand continues: requests are answered one at a time.
        self._resumed: _Held | None = None

    def joined(self, request: ParsedRequest, now: float) -> ParsedRequest:
        """The whole request that a `continue` stands for; any other request as it is."""
        self._resumed = None
        thread = request.body.get("thread")
        if not isinstance(thread, dict) or thread.get("type") != "continue":
            return request
        held = self._found(request, str(thread.get("previous_message_id")), now)
        if any(ours and ours != theirs for ours, theirs in _fixed(request, held.request)):
            message = "thread: `system` and `tools` cannot change in a thread"
            raise invalid_request(message, error_code="thread_fingerprint_mismatch")
        self._resumed = held
        return replace(
            request,
            # The rules for a request that starts a thread are those for one whose history is whole.
            body=request.body | {"thread": {"type": "create"}},
            system=held.request.system,
            tools=held.request.tools,
            messages=(*held.request.messages, held.reply, *request.messages),
        )

    def hold(self, request: ParsedRequest, body: dict[str, Any], now: float) -> None:
        """Keep an answered conversation under the id of its answer, if its request asked for that."""
        if not isinstance(request.body.get("thread"), dict):
            return
        self._forget(now)
        if self._resumed is not None:
            self._resumed.continued = True
        kept = replace(request, messages=tuple(_unmarked(message) for message in request.messages))
        reply = ParsedMessage("assistant", parse_content(body["content"], "content"))
        self._held[request.workspace, body["id"]] = _Held(kept, reply, now)

    def _found(self, request: ParsedRequest, id: str, now: float) -> _Held:
        held = self._held.get((request.workspace, id))
        if held is None or now - held.at > self._keeps:
            message = f"thread: no thread was found for {id}; send the whole conversation to create a new one"
            raise ApiError(404, "not_found_error", message, error_code="thread_not_found")
        if held.continued:
            message = f"thread: {id} was continued already; each response can be continued once"
            raise invalid_request(message, error_code="thread_already_continued")
        return held

    def _forget(self, now: float) -> None:
        gone = [key for key, held in self._held.items() if now - held.at > self._keeps]
        for key in gone:
            del self._held[key]


def _unmarked(message: ParsedMessage) -> ParsedMessage:
    """A marker holds for the request that set it; a request takes only four."""
    if not any(block.marker for block in message.blocks):
        return message
    return replace(message, blocks=tuple(_plain(block) for block in message.blocks))


def _plain(block: ParsedBlock) -> ParsedBlock:
    body = {name: value for name, value in block.body.items() if name != "cache_control"}
    return replace(block, body=body, marker=None)


def _fixed(request: ParsedRequest, held: ParsedRequest) -> list[tuple[Any, Any]]:
    pairs = [(getattr(request, name), getattr(held, name)) for name in CREATE_ONLY]
    return [([b.digest for b in ours], [b.digest for b in theirs]) for ours, theirs in pairs]
