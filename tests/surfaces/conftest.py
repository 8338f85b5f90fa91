"""A desk for each test: a session's folder and the twin that answers it; and the chat in a project."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from scripted_twin import scripted_options
from surfaces.desk import Chat, Desk

from everturn.twin.testing import TwinForTests


@pytest.fixture
def desk(tmp_path: Path, twin: TwinForTests) -> Desk:
    return Desk(tmp_path, twin)


@pytest.fixture
def extended_desk(tmp_path: Path) -> Iterator[Desk]:
    """The same, with a provider that can delete results from its cache."""
    twin = TwinForTests(options=scripted_options(extensions=frozenset({"cache_edits"})))
    yield Desk(tmp_path, twin)
    twin.close()


@pytest.fixture
def chat(tmp_path: Path, twin: TwinForTests) -> Chat:
    return Chat(tmp_path, twin)
