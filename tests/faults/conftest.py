"""Whether faults are tried at length. How many were tried is told at the end of a run (`trials_told.py`)."""

import os

import pytest


@pytest.fixture
def is_soak() -> bool:
    return os.environ.get("EVERTURN_PROFILE") == "soak"
