"""Files whose lines another program has joined, sorted or stripped of their links."""

import json
import random
from functools import cache

import pytest
from builders import assistant, user
from replay.small_files import said

from everturn.replay.readers.claude_code import CLAUDE_CODE
from everturn.replay.readers.record_order import OrderedRecords, restore_order, separate_sessions
from everturn.replay.readers.values import RecordedConversation, SourceFile
from everturn.replay.sessions import ReplaySession, Unreadable, read_session, read_sessions
from everturn.replay.synthetic import SessionShape, generate_session

NO_LINKS = "no line names the one before it; they are read in the order of the file"


@cache
def lines_of(seed: int = 7) -> tuple[bytes, ...]:
    """A session with a compaction, a rewind, sub-agents and a change of the model."""
    shape = SessionShape(boundaries=1, forks=1, sidechains=2, model_switches=1)
    return tuple(generate_session(seed=seed, tokens=20_000, shape=shape))


def read(lines) -> list[RecordedConversation]:
    return [*CLAUDE_CODE.conversations(SourceFile(b"".join(line + b"\n" for line in lines)))]


def threads_of(conversation: RecordedConversation):
    """The threads without what was found wrong in the file, sub-agents by name."""
    return sorted((thread.agent, thread.records) for thread in conversation.threads)


def changed(lines, **fields) -> list[bytes]:
    return [json.dumps({**json.loads(line), **fields}).encode() for line in lines]


@pytest.mark.spec("RP-1")
@pytest.mark.parametrize("seed", range(8))
def test_a_file_with_its_lines_shuffled_is_the_session_that_was_written(seed):
    mixed = [*lines_of()]
    random.Random(seed).shuffle(mixed)
    (whole,), (found,) = read(lines_of()), read(mixed)
    assert threads_of(found) == threads_of(whole)


@pytest.mark.spec("RP-1")
def test_without_times_the_links_alone_put_lines_in_order():
    plain = [user("a", parent="")] + [
        user(name, parent=before) for before, name in zip("abcd", "bcde", strict=True)
    ]
    note = "lines that stood before the one they continue, and were put in order by links and times: 4"
    assert restore_order(plain[::-1]) == OrderedRecords(tuple(plain), note)


def test_one_late_line_alone_is_left_where_it_is():
    records = (user("a"), user("c", parent="b"), user("b", parent="a"))
    assert restore_order(records) == OrderedRecords(records)


def test_lines_in_a_circle_stay_in_the_order_of_the_file():
    records = (user("a", parent="c"), user("b", parent="c"), user("c", parent="a"))
    assert restore_order(records) == OrderedRecords(records)


@pytest.mark.spec("RP-1")
def test_lines_without_any_link_are_a_conversation_in_the_order_of_the_file():
    one = assistant("yes", uuid="b", id="m1", sessionId="s")
    records = (user("a"), one, user("c"), assistant("no", uuid="d", id="m2"))
    (found,) = read([record.raw for record in records])
    assert [each for thread in found.threads for each in said(thread)] == [
        ("user", ["a"]),
        ("assistant", ["yes"]),
        ("user", ["c"]),
        ("assistant", ["no"]),
    ]
    assert found.notes == (NO_LINKS,)


@pytest.mark.spec("RP-1")
@pytest.mark.parametrize("interleaved", [False, True])
def test_two_sessions_joined_in_one_file_are_two_sessions(tmp_path, interleaved):
    first, second = (changed(lines_of(seed), sessionId=f"s{seed}") for seed in (7, 8))
    # Both were written with the ids that a session has in this test suite; those of real ones differ.
    second = [line.replace(b'Uuid": "', b'Uuid": "x').replace(b'"uuid": "', b'"uuid": "x') for line in second]
    apart = [threads_of(read(lines)[0]) for lines in (first, second)]
    short = min(len(first), len(second))
    mixed = [line for pair in zip(first, second, strict=False) for line in pair]
    joined = [*mixed, *first[short:], *second[short:]] if interleaved else [*first, *second]
    found = read(joined)
    assert [each.key for each in found] == ["s7", "s8"]
    assert [threads_of(each) for each in found] == apart
    file = tmp_path / "both.jsonl"
    file.write_bytes(b"\n".join(joined))
    sessions = [each for each in read_sessions([file]) if isinstance(each, ReplaySession)]
    assert [each.path for each in sessions] == [f"{file}#s7", f"{file}#s8"]
    assert [read_session(tmp_path / f"both.jsonl#{key}") for key in ("s7", "s8")] == sessions
    why = f"the file holds 2 sessions; name one, for example {file}#s7"
    assert read_session(file) == Unreadable(str(file), why)


@pytest.mark.spec("RP-1")
def test_a_session_that_goes_on_under_a_new_id_is_one_session():
    records = (
        user("a", sessionId="old"),
        assistant("b", uuid="b", parent="a", sessionId="old"),
        user("c", parent="b", sessionId="new"),
        user("d", parent="c", sessionId="newer"),
    )
    assert [*separate_sessions(records).values()] == [records]


def test_a_sub_agent_with_an_id_of_its_own_belongs_to_the_session_around_it():
    records = (
        user("a", sessionId="s"),
        user("look", isSidechain=True, agentId="x", sessionId="other"),
        assistant("b", uuid="b", parent="a", sessionId="s"),
        user("no id"),
    )
    assert separate_sessions(records) == {"s": records}


def test_each_of_two_joined_sessions_has_the_sub_agents_that_it_started(tmp_path):
    sessions = [changed([user(f"in {key}").raw], sessionId=key) for key in ("s1", "s2")]
    (tmp_path / "both.jsonl").write_bytes(b"\n".join([*sessions[0], *sessions[1]]))
    for key in ("s1", "s2"):
        side = user(f"look in {key}", isSidechain=True, agentId=f"of-{key}", sessionId=key)
        (tmp_path / f"agent-of-{key}.jsonl").write_bytes(side.raw)
    found = [each for each in read_sessions([tmp_path]) if isinstance(each, ReplaySession)]
    assert [(each.name, [thread.agent for thread in each.threads]) for each in found] == [
        ("both#s1", ["", "of-s1"]),
        ("both#s2", ["", "of-s2"]),
    ]
    assert [read_session(tmp_path / f"both.jsonl#{key}") for key in ("s1", "s2")] == found
