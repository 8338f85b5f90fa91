"""A conversation of one's own for every test."""

from collections.abc import Callable
from pathlib import Path

import pytest
from engine.held import Held


@pytest.fixture
def hold(tmp_path: Path) -> Callable[..., Held]:
    """Begin a conversation; the arguments are those of `Held`."""
    return lambda **how: Held(tmp_path, **how)
