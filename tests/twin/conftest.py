"""Shared by the tests of the twin: validate one request."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from everturn.twin.options import TwinOptions
from everturn.twin.parse import parse_request
from everturn.twin.signatures import check_thinking
from everturn.twin.validate import validate
from everturn.twin.values import ApiError

Verdict = Callable[..., str]


def _judge(
    body: Any,
    *,
    betas: str = "",
    version: str = "2023-06-01",
    endpoint: Any = "messages",
    options: TwinOptions | None = None,
) -> ApiError | None:
    options = options or TwinOptions(foreign_signatures="accept")
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"anthropic-version": version, "anthropic-beta": betas}
    try:
        request = parse_request(endpoint, headers, data, workspace="w")
        validate(request, options)
        check_thinking(request, options)
    except ApiError as refusal:
        return refusal
    return None


@pytest.fixture(scope="session")
def refusal_of() -> Callable[..., ApiError | None]:
    return _judge


@pytest.fixture(scope="session")
def verdict() -> Verdict:
    """The message of the error, or "accepted"."""

    def words(body: Any, **circumstances: Any) -> str:
        refusal = _judge(body, **circumstances)
        return refusal.message if refusal else "accepted"

    return words
