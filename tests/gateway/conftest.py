"""Fixtures: gateways in front of a raw upstream or a twin."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from gateway.lab import OpenLab, opener

from everturn.twin.app import serve_twin
from everturn.twin.service import Twin


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[OpenLab]:
    yield from opener(tmp_path)


@pytest.fixture
def twin_url(served_twin: Twin) -> Iterator[str]:
    with serve_twin(served_twin) as url:
        yield url


@pytest.fixture
def served_twin() -> Twin:
    from scripted_twin import scripted_options

    from everturn.twin.build import build_twin

    return build_twin(clock="real", options=scripted_options())
