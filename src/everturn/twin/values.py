"""The types that the twin's modules pass to each other, from the parsed request to the HTTP response.

    body ─ parse ─> ParsedRequest ─ validate, edit, lay out, generate ─> ModelOutput ─> HttpResponse
                └─> ApiError (in the API's own format, whatever the client sent)

A block keeps its payload as it was sent, key order included, and a digest of it without
`cache_control`: a breakpoint is not part of the cache key (api-facts 1.3).
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from everturn.measure.model_table import Model
from everturn.measure.prefix_cache import Ttl
from everturn.wire.json_values import as_object, as_objects

Endpoint = Literal["messages", "count_tokens"]
RequestRole = Literal["user", "assistant", "system"]


@dataclass(frozen=True, slots=True)
class ParsedBlock:
    """One block of the prompt: a tool definition, a system text, or a content block of a message."""

    kind: str
    body: dict[str, Any]
    digest: bytes
    cache_ttl: Ttl | None = None


@dataclass(frozen=True, slots=True)
class ParsedMessage:
    role: RequestRole
    blocks: tuple[ParsedBlock, ...]
    # The fields other than role and content, such as `clear_at` or `output_config`.
    extra: dict[str, Any] = field(default_factory=dict[str, Any])
    # The types of its blocks and of the blocks inside them.
    kinds: frozenset[str] = field(init=False, compare=False, repr=False)
    # What was computed from the message, by name. It is freed with the message, and a changed copy starts
    # without it.
    computed: dict[str, Any] = field(init=False, default_factory=dict[str, Any], compare=False, repr=False)

    def __post_init__(self) -> None:
        nested = (str(part.get("type")) for block in self.blocks for part in _parts(block.body))
        kinds = frozenset((*(block.kind for block in self.blocks), *nested))
        object.__setattr__(self, "kinds", kinds)


def _parts(body: dict[str, Any]) -> list[dict[str, Any]]:
    return as_objects(body.get("content"))


@dataclass(frozen=True, slots=True)
class ParsedRequest:
    """A request that could be parsed. `validate` checks its content."""

    endpoint: Endpoint
    workspace: str
    version: str
    betas: frozenset[str]
    model: Model
    body: dict[str, Any]
    tools: tuple[ParsedBlock, ...]
    system: tuple[ParsedBlock, ...]
    messages: tuple[ParsedMessage, ...]
    # The types of all blocks in the messages, and of the blocks inside them: most rules are about types that
    # most requests do not have.
    kinds: frozenset[str] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        kinds = frozenset[str]().union(*[message.kinds for message in self.messages])
        object.__setattr__(self, "kinds", kinds)

    @property
    def streams(self) -> bool:
        return bool(self.body.get("stream"))

    def get_object(self, name: str) -> dict[str, Any]:
        """The object in a field of the body; empty if the field is missing or null."""
        return as_object(self.body.get(name))


class ApiError(Exception):
    """An error response, in the words of the API."""

    def __init__(
        self,
        status: int,
        kind: str,
        message: str,
        *,
        error_code: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.message = message
        self.error_code = error_code
        self.headers = headers or {}


def invalid_request(message: str, *, error_code: str | None = None) -> ApiError:
    """An `invalid_request_error` with status 400, by far the most common error."""
    return ApiError(400, "invalid_request_error", message, error_code=error_code)


@dataclass(frozen=True, slots=True)
class ModelOutput:
    """What the model generates: content blocks in the API's format, and why it stopped."""

    content: tuple[dict[str, Any], ...]
    stop_reason: str
    stop_sequence: str | None = None
    # Set if a script gives it; otherwise the twin counts the content.
    output_tokens: int | None = None
    # A scripted reply with a stop reason is sent unchanged, even if it exceeds max_tokens.
    is_verbatim: bool = False
    # The JSON of the last tool call's input, if the output limit cut it off.
    partial_input: str | None = None


class ResponseChunk(NamedTuple):
    """A part of a body, and the seconds to wait before it."""

    wait: float
    data: bytes
    is_last: bool


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A complete body, or a stream of (seconds to wait, bytes)."""

    status: int
    headers: dict[str, str]
    body: bytes = b""
    stream: Iterable[tuple[float, bytes]] | None = None
    # Seconds before the first byte; set by faults.
    delay: float = 0.0
    # Called once, after the delay and before the first byte: other requests can read the new cache entries
    # only from then on (api-facts 1.3). None when there is nothing to do.
    on_first_byte: Callable[[], None] | None = None
    # Called if the client goes away before it has the whole response. None when there is nothing to do.
    on_abandoned: Callable[[], None] | None = None
    # The connection is closed before the response is complete, as after a network failure.
    hangs_up: bool = False

    def chunks(self) -> Iterator[ResponseChunk]:
        """The parts of the body in order. A complete body is one part."""
        if self.stream is None:
            yield ResponseChunk(0.0, self.body, is_last=True)
            return
        waiting: tuple[float, bytes] | None = None
        for each in self.stream:
            if waiting is not None:
                yield ResponseChunk(*waiting, is_last=False)
            waiting = each
        yield ResponseChunk(*(waiting or (0.0, b"")), is_last=True)

    def abandon(self) -> None:
        if self.on_abandoned is not None:
            self.on_abandoned()
