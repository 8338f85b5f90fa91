"""The stores that one suite of tests is for."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from everturn.session.store.factory import StoreFactory
from everturn.session.store.places import open_stores

KINDS = ("memory", "folder", "sqlite", "postgres")


@pytest.fixture(params=KINDS)
def kind(request) -> str:
    return request.param


@pytest.fixture
def url(kind: str, tmp_path: Path, request) -> str:
    urls = {
        "memory": "memory:",
        "folder": str(tmp_path / "kept"),
        "sqlite": f"sqlite:{tmp_path}/kept/s.sqlite",
    }
    return urls.get(kind) or request.getfixturevalue("postgres_url")


@pytest.fixture
def stores(url: str, tmp_path: Path) -> Iterator[StoreFactory]:
    made = open_stores(url, folder=tmp_path / "local", fsync="never")
    yield made
    made.close()
