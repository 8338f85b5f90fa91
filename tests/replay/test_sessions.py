"""Files and folders become sessions; sub-agents find their session; what cannot be read is named."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_session import SmallSession, reading, text

from everturn.replay.sessions import ReplaySession, Unreadable, read_session, read_sessions


def _side(agent: str, session: str = "s1") -> bytes:
    side = SmallSession(agent=agent).human("Look.").reply(f"m-{agent}", text("Found."), plain=5_000)
    return side.to_bytes().replace(b'"sessionId": "s1"', f'"sessionId": "{session}"'.encode())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A session with an agent beside it and one below, a stranger's agent, and three files that are none."""
    (tmp_path / "main.jsonl").write_bytes(reading().to_bytes())
    (tmp_path / "agent-a1.jsonl").write_bytes(_side("a1"))
    (tmp_path / "agent-z9.jsonl").write_bytes(_side("z9", "elsewhere"))
    (tmp_path / "main" / "subagents").mkdir(parents=True)
    (tmp_path / "main" / "subagents" / "agent-b2.jsonl").write_bytes(_side("b2"))
    (tmp_path / "notes.txt").write_text("nothing of the kind")
    (tmp_path / "empty.jsonl").write_text(" \n")
    (tmp_path / "titles.jsonl").write_text('{"type":"summary","summary":"A title","leafUuid":"u"}\n')
    (tmp_path / ".hidden.jsonl").write_bytes(reading().to_bytes())
    (tmp_path / ".cache").mkdir()
    (tmp_path / ".cache" / "old.jsonl").write_bytes(reading().to_bytes())
    return tmp_path


@pytest.mark.spec("RP-1")
def test_a_folder_gives_sessions_with_their_agents_and_names_what_it_cannot_read(folder):
    found = [*read_sessions([folder])]
    told = [
        (each.name, [thread.agent for thread in each.threads])
        if isinstance(each, ReplaySession)
        else (Path(each.path).name, each.why)
        for each in found
    ]
    assert told == [
        ("empty.jsonl", "the file is empty"),
        ("main", ["", "a1", "b2"]),
        ("notes.txt", "unknown format"),
        ("titles.jsonl", "it looks like claude-code, but has no messages"),
        ("agent-z9", ["z9"]),
    ]


@pytest.mark.spec("RP-1")
def test_a_session_opened_by_itself_is_the_one_that_its_folder_gave(folder):
    by_path = {each.path: each for each in read_sessions([folder]) if isinstance(each, ReplaySession)}
    assert [read_session(Path(path)) for path in by_path] == [*by_path.values()]


def test_an_agents_file_opened_by_itself_is_a_session(folder):
    session = read_session(folder / "agent-a1.jsonl")
    assert isinstance(session, ReplaySession)
    assert [thread.agent for thread in session.threads] == ["a1"]


def test_of_two_copies_of_a_session_the_first_has_its_agents(folder):
    (folder / "copy.jsonl").write_bytes(reading().to_bytes())
    found = {
        each.name: len(each.threads) for each in read_sessions([folder]) if isinstance(each, ReplaySession)
    }
    assert found == {"copy": 2, "main": 2, "agent-z9": 1}


def test_a_file_named_twice_is_read_once(folder):
    file = folder / "main.jsonl"
    assert len([*read_sessions([file, file])]) == 1


def test_the_digest_changes_with_any_file_of_the_session(folder):
    before = read_session(folder / "main.jsonl")
    (folder / "agent-a1.jsonl").write_bytes(_side("a1") + b"\n")
    after = read_session(folder / "main.jsonl")
    assert isinstance(before, ReplaySession)
    assert isinstance(after, ReplaySession)
    assert before.digest != after.digest


def test_a_format_is_told_by_content_whatever_the_name(tmp_path):
    file = tmp_path / "picture.png"
    file.write_bytes(reading().to_bytes())
    session = read_session(file)
    assert isinstance(session, ReplaySession)
    assert session.format == "claude-code"


def test_what_is_not_there_is_named_with_the_reason(tmp_path):
    assert read_session(tmp_path / "no.jsonl") == Unreadable(
        str(tmp_path / "no.jsonl"), "No such file or directory"
    )
    (tmp_path / "tau.json").write_text(
        json.dumps([{"task_id": 1, "traj": [{"role": "user", "content": "x"}]}])
    )
    assert read_session(tmp_path / "tau.json#nothing") == Unreadable(
        str(tmp_path / "tau.json#nothing"), "the file has no session 'nothing'"
    )


@pytest.mark.spec("RP-1")
def test_a_file_that_cannot_be_followed_is_named_and_the_rest_goes_on(tmp_path):
    odd = [{"role": "user", "content": "x"}, {"role": "tool", "tool_call_ids": [{"id": 1}], "content": "y"}]
    (tmp_path / "a.json").write_text(json.dumps(odd))
    (tmp_path / "b.jsonl").write_bytes(reading().to_bytes())
    first, second = read_sessions([tmp_path])
    assert isinstance(first, Unreadable)
    assert first.why == (
        "it looks like openai-messages, but cannot be parsed (TypeError: unhashable type: 'dict')"
    )
    assert isinstance(second, ReplaySession)


_NAMES = [
    "role", "content", "type", "payload", "messages", "history", "trajectory", "message", "traj", "task_id",
    "instance_id", "action", "tool_calls", "function", "sessionId", "projectHash", "id", "uuid", "toolCalls",
    "usage", "extra", "cwd", "tokens", "info", "call_id", "observation",
]  # fmt: skip
_WORDS = ["user", "assistant", "message", "session", "event_msg", "gemini", "tool"]
_json = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(_NAMES), inner | st.sampled_from(_WORDS), max_size=5)
    ),
    max_leaves=12,
)


@pytest.mark.spec("RP-1")
@given(st.lists(_json, min_size=1, max_size=4), st.sampled_from(["lines", "list", "first"]))
def test_no_file_of_json_whatever_stops_the_rest(tmp_path_factory, values, spelled):
    folder = tmp_path_factory.mktemp("odd")
    text = {
        "lines": "\n".join(json.dumps(value) for value in values),
        "list": json.dumps(values),
        "first": json.dumps(values[0]),
    }[spelled]
    (folder / "a.json").write_text(text, encoding="utf-8")
    (folder / "b.jsonl").write_bytes(reading().to_bytes())
    found = [*read_sessions([folder])]
    assert [each.name for each in found if isinstance(each, ReplaySession)][-1] == "b"
