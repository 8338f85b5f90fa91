"""The benchmark of the peers lives outside the package; what needs no peer installed is tested here."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from everturn.replay.sessions import ReplaySession, read_session
from everturn.replay.synthetic import SessionShape, generate_session

PEERS = Path(__file__).parents[2] / "bench" / "peers"


def _load_peers() -> None:
    """By its file: with bench/ on the path, bench/replay.py would hide the tests of the same name."""
    spec = spec_from_file_location("peers", PEERS / "__init__.py", submodule_search_locations=[str(PEERS)])
    assert spec is not None
    assert spec.loader is not None
    sys.modules["peers"] = module_from_spec(spec)
    spec.loader.exec_module(sys.modules["peers"])


_load_peers()


@pytest.fixture(scope="session")
def told(tmp_path_factory: pytest.TempPathFactory) -> ReplaySession:
    """A made-up session of one thread, without pictures and pauses."""
    shape = SessionShape(boundaries=0, sidechains=0, images=0, idle_gaps=0)
    path = tmp_path_factory.mktemp("peers") / "told.jsonl"
    path.write_bytes(b"\n".join(generate_session(seed=5, tokens=40_000, shape=shape)))
    session = read_session(path)
    assert isinstance(session, ReplaySession)
    return session
