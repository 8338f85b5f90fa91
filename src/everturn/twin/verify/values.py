"""What a probe is: requests, what is compared in the responses, and what a difference teaches."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

# How two observed values are compared:
#   equal    the values themselves
#   zero     whether they are zero, empty or missing
#   near     numbers that differ by at most 15 percent
#   thirds   a number of read tokens, as thirds of the whole prompt
Comparison = Literal["equal", "zero", "near", "thirds"]
Endpoint = Literal["messages", "count_tokens"]


@dataclass(frozen=True, slots=True)
class ProbeRequest:
    """One request of a probe. In strings, `{salt}` becomes a text that no earlier run has used."""

    body: Mapping[str, Any]
    endpoint: Endpoint = "messages"
    betas: str = ""
    version: str = "2023-06-01"
    # Seconds to wait before the request.
    wait: float = 0.0
    # Sent instead of `body`, for what cannot be written as a value.
    raw: bytes = b""


@dataclass(frozen=True, slots=True)
class ComparedField:
    """A value in the responses: the number of the request, and a path in its response."""

    request: int
    path: str
    how: Comparison = "equal"


@dataclass(frozen=True, slots=True)
class LearnedOption:
    """Which value of an option explains what the API did, by the observed value of a compared field."""

    option: str
    field: int
    values: Mapping[Any, Any]


@dataclass(frozen=True, slots=True)
class Probe:
    """One question to both sides."""

    id: str
    asks: str
    requests: tuple[ProbeRequest, ...]
    compares: tuple[ComparedField, ...]
    learns: LearnedOption | None = None
    # The model whose characters per token are learned from the first compared field.
    learns_ratio: str = ""
    is_slow: bool = False
    # What the twin's model replies; the real one replies on its own.
    script: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProbeResponse:
    """A response as it is compared: `status`, `body`, and the names of stream events."""

    status: int
    body: Mapping[str, Any] = field(default_factory=dict[str, Any])


# Sends one request to one side.
SendProbe = Callable[[ProbeRequest], ProbeResponse]
