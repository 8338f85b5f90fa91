"""What is stored is data: whatever somebody wrote into our files, nothing of it runs,
and the session opens (S18)."""

from pathlib import Path

import pytest
from small_session import reading

from everturn import Session
from everturn.decide.compact.settings import DEFAULTS
from everturn.twin.testing import TwinForTests
from everturn.twin.upstream import make_twin_send

POISON = {
    "nothing": b"",
    "a pickle": b"\x80\x04\x95\x1d\0\0\0\0\0\0\0\x8c\x05posix\x8c\x06system\x93\x8c\x02id\x85R.",
    "no text": b'{"breaker":{"last":"\xff\xfe"}}',
    "nested without end": b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "another shape": b'{"breaker": [1, 2], "baselines": "none"}',
    "a class by name": b'{"__reduce__": ["os.system", "id"], "py/object": "os.system"}',
    "huge numbers": b'{"breaker": {"failures": 1e400, "spent": ' + b"9" * 5_000 + b"}}",
    "negative counts": b'{"breaker": {"failures": -1000000, "spent": -1000000}}',
}


def held(path: Path, twin: TwinForTests) -> Session:
    return Session.open(path, model="claude-haiku-4-5", send=make_twin_send(twin.twin), fsync="never")


@pytest.mark.parametrize("name", [".state.json", ".notes.md", ".pins", ".index.sqlite"])
@pytest.mark.parametrize("poison", POISON)
def test_a_poisoned_file_beside_the_transcript_costs_only_itself(
    tmp_path: Path, twin: TwinForTests, name: str, poison: str
):
    path = tmp_path / "work.jsonl"
    path.write_bytes(reading().to_bytes())
    (tmp_path / f"work.jsonl{name}").write_bytes(POISON[poison])
    twin.script("Still here.")
    with held(path, twin) as session:
        assert session.send("Are you there?").text == "Still here."
        assert session.recall("parser")


def test_no_state_file_buys_more_calls_than_one_session_may_make(tmp_path: Path, twin: TwinForTests):
    path = tmp_path / "work.jsonl"
    path.write_bytes(reading().to_bytes())
    (tmp_path / "work.jsonl.state.json").write_bytes(POISON["negative counts"])
    with held(path, twin) as session:
        assert session.conversation.compaction_state.breaker.calls_left <= DEFAULTS.calls
