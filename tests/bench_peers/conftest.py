"""The benchmark of the peers lives outside the package; what needs no peer installed is tested here."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

from everturn.replay.made_up import Shape, made_up_session
from everturn.replay.sessions import Session, read_session


@pytest.fixture(scope="session")
def told(tmp_path_factory: pytest.TempPathFactory) -> Session:
    """A made-up session of one thread, without pictures and pauses."""
    shape = Shape(boundaries=0, sidechains=0, images=0, idle_gaps=0)
    path = tmp_path_factory.mktemp("peers") / "told.jsonl"
    path.write_bytes(b"\n".join(made_up_session(seed=5, tokens=40_000, shape=shape)))
    session = read_session(path)
    assert isinstance(session, Session)
    return session
