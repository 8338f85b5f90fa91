"""A scene for every incident."""

from pathlib import Path

import pytest
from incidents.scene import Scene

from everturn.twin.testing import TwinForTests


@pytest.fixture
def scene(tmp_path: Path, twin: TwinForTests) -> Scene:
    return Scene(tmp_path, twin)
