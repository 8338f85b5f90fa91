"""A desk for each test: a session's folder and the twin that answers it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from surfaces.desk import Desk

from everturn.twin.options import TwinOptions
from everturn.twin.testing import TwinForTests


@pytest.fixture
def desk(tmp_path: Path, twin: TwinForTests) -> Desk:
    return Desk(tmp_path, twin)


@pytest.fixture
def extended_desk(tmp_path: Path) -> Iterator[Desk]:
    """The same, with a provider that can delete results from its cache."""
    twin = TwinForTests(options=TwinOptions(extensions=frozenset({"cache_edits"})))
    yield Desk(tmp_path, twin)
    twin.close()
