"""A transcript does not grow beyond what can be opened."""

import pytest

from everturn import StoreError
from everturn.session.store import file_system, jsonl_store

LIMIT = 60_000


@pytest.fixture
def limited(desk, monkeypatch):
    for module in (file_system, jsonl_store):
        monkeypatch.setattr(module, "MAX_SESSION_BYTES", LIMIT, raising=False)
    return desk


@pytest.mark.spec("TR-10")
def test_a_session_refuses_to_grow_beyond_what_can_be_opened_and_opens_with_all_that_it_kept(limited):
    with limited.open() as session:
        while limited.path.stat().st_size < LIMIT // 2:
            limited.talk(session, turns=1)
        kept, sent = limited.path.read_bytes(), len(limited.bodies)
        with pytest.raises(StoreError) as raised:
            session.send("x" * LIMIT)
        with pytest.raises(StoreError, match="Nothing can be appended to"):
            session.send("Are you still there?")
    said = str(raised.value)
    assert said.startswith(
        f"The last append to {limited.path} failed: it would be too large to be opened again ("
    )
    assert said.endswith(" bytes, at most 60,000); go on in another session, and read this one.")
    assert (limited.path.read_bytes(), len(limited.bodies)) == (kept, sent)
    with limited.open() as session:
        assert len(session.conversation.log.records) == kept.count(b"\n")
        limited.talk(session, turns=1)
