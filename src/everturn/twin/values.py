"""The values that pass through the twin, from the body of a request to the line in the ledger.

    body ─ parse ─> Request ─ validate ─> edits ─> prompt blocks ─ cache, bill ─> Reply ─> Entry
                 └─> Refusal (the API's own kind of error, whatever the client sent)

A block keeps its payload as it was sent, key order included, and a digest of it without
`cache_control`: the marker is not part of the cache key (api-facts 1.3).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from everturn.measure.model_table import Model

Ttl = Literal["5m", "1h"]
RequestRole = Literal["user", "assistant", "system"]


@dataclass(frozen=True, slots=True)
class ParsedBlock:
    """One block of the prompt: a tool definition, a system text, or a piece of a message."""

    kind: str
    body: dict[str, Any]
    digest: bytes
    marker: Ttl | None = None


@dataclass(frozen=True, slots=True)
class ParsedMessage:
    role: RequestRole
    blocks: tuple[ParsedBlock, ...]
    # Everything of the message beside role and content, such as `clear_at` or `output_config`.
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ParsedRequest:
    """A request whose shape is right. Whether its content is right is `validate`'s question."""

    endpoint: Literal["messages", "count_tokens"]
    workspace: str
    version: str
    betas: frozenset[str]
    model: Model
    body: dict[str, Any]
    tools: tuple[ParsedBlock, ...]
    system: tuple[ParsedBlock, ...]
    messages: tuple[ParsedMessage, ...]

    @property
    def streams(self) -> bool:
        return bool(self.body.get("stream"))


class ApiError(Exception):
    """An answer that is an error, as the API would word it."""

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
    """400 invalid_request_error: by far the most common refusal."""
    return ApiError(400, "invalid_request_error", message, error_code=error_code)


@dataclass(frozen=True, slots=True)
class ModelOutput:
    """What the model says: content blocks as the API spells them, and why it stopped."""

    content: tuple[dict[str, Any], ...]
    stop_reason: str
    stop_sequence: str | None = None
    # Set where a script fixes it; otherwise the twin counts the content.
    output_tokens: int | None = None
    # A script that names its stop reason is said as it stands, whatever max_tokens says.
    is_verbatim: bool = False


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole answer: the body of a plain response, and what its stream is made of."""

    body: dict[str, Any]
    headers: dict[str, str]


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """What goes over the wire: a whole body, or a stream of pieces, each after a delay in seconds."""

    status: int
    headers: dict[str, str]
    body: bytes = b""
    stream: Iterable[tuple[float, bytes]] | None = None
    # Seconds before the first byte; a fault can set it.
    delay: float = 0.0
    # To be called once, after the delay and before the first byte: what the request wrote to the cache can be
    # read by others only from then on (api-facts 1.3). None when there is nothing to do.
    begins: Callable[[], None] | None = None
    # The connection is dropped instead of answered, as a time-out or a cut line would do.
    hangs_up: bool = False
