"""One server for the whole run, reset before every test."""

from collections.abc import Iterator

import pytest
from conformance.api import Api

from everturn.twin.app import serve_twin
from everturn.twin.build import build_twin
from everturn.twin.options import TwinOptions


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    with serve_twin(build_twin()) as url:
        yield url


@pytest.fixture
def api(address: str) -> Api:
    client = Api(address)
    client.control("reset", {})
    return client


@pytest.fixture(scope="session")
def extended_address() -> Iterator[str]:
    with serve_twin(build_twin(options=TwinOptions(extensions=frozenset({"cache_edits"})))) as url:
        yield url


@pytest.fixture
def extended(extended_address: str) -> Api:
    """A server started with the extension that is outside the public API."""
    client = Api(extended_address)
    client.control("reset", {})
    return client
