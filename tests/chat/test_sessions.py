"""Where conversations are kept, and how one of them is found again."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from everturn.chat.screen.welcome import format_age, format_session_list
from everturn.chat.sessions import (
    SavedSession,
    list_sessions,
    new_session_path,
    project_folder,
    read_first_prompt,
    remove_if_empty,
    select_session,
)
from everturn.dashboard.layout import Screen
from everturn.errors import UsageError


def line(kind: str, content: object) -> bytes:
    return json.dumps({"type": kind, "message": {"role": kind, "content": content}}).encode() + b"\n"


def kept(name: str, words: str = "Fix it", changed: float = 0.0, size: int = 2048) -> SavedSession:
    return SavedSession(Path(f"/data/{name}.jsonl"), words, changed, size)


def test_each_project_has_a_folder_that_says_its_name(tmp_path):
    one, other = tmp_path / "a" / "my app", tmp_path / "b" / "my app"
    for each in (one, other):
        each.mkdir(parents=True)
    folders = [project_folder(each, {"XDG_DATA_HOME": "/data"}, Path("/home/me")) for each in (one, other)]
    assert [folder.parent for folder in folders] == [Path("/data/everturn/chat")] * 2
    assert all(folder.name.startswith("my-app-") for folder in folders)
    assert folders[0] != folders[1]


@pytest.mark.parametrize("given", [{}, {"XDG_DATA_HOME": ""}, {"XDG_DATA_HOME": "not/absolute"}])
def test_without_a_data_home_it_is_the_usual_one(given):
    assert project_folder(Path("/"), given, Path("/home/me")).parent == Path(
        "/home/me/.local/share/everturn/chat"
    )


def test_ids_are_in_the_order_of_time():
    at = datetime(2026, 11, 15, 10, 42, 7, tzinfo=UTC)
    assert new_session_path(Path("/f"), at, "ab12cd") == Path("/f/20261115-104207-ab12.jsonl")


def test_the_one_that_was_touched_last_comes_first_and_empty_ones_do_not_count(tmp_path):
    for at, name in enumerate(("one", "two", "three")):
        (tmp_path / f"{name}.jsonl").write_bytes(line("user", f"I am {name}"))
        os.utime(tmp_path / f"{name}.jsonl", (at, at))
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "history").write_text("typed")
    assert [(each.id, each.words) for each in list_sessions(tmp_path)] == [
        ("three", "I am three"),
        ("two", "I am two"),
        ("one", "I am one"),
    ]
    assert list_sessions(tmp_path / "missing") == ()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (line("user", "Fix  the\nlogin"), "Fix the login"),
        (b"no json\n" + line("assistant", "Hello") + line("user", [{"type": "text", "text": "Hi"}]), "Hi"),
        (line("user", [{"type": "tool_result", "content": "x"}]) + line("user", "Then this"), "Then this"),
        (b"", ""),
        (b'{"type": "user", "message": {"content": 3}}\n', ""),
    ],
)
def test_first_words_are_those_of_a_person(data, words):
    assert read_first_prompt(data) == words


def test_a_conversation_is_chosen_by_number_or_by_the_beginning_of_its_id():
    every = (kept("20261115-b"), kept("20261114-a"), kept("20261114-c"))
    assert [select_session(every, which) for which in ("", "newest", "2", "20261115", "20261114-c")] == [
        every[0],
        every[0],
        every[1],
        every[0],
        every[2],
    ]


@pytest.mark.parametrize(
    ("which", "says"),
    [
        (
            "20261114",
            "2 conversations found whose id starts with '20261114'; /resume in the chat lists them all.",
        ),
        ("9", "No conversation found whose id starts with '9'; /resume in the chat lists them all."),
    ],
)
def test_a_choice_that_fits_none_or_several_is_told(which, says):
    with pytest.raises(UsageError) as problem:
        select_session((kept("20261114-a"), kept("20261114-c")), which)
    assert str(problem.value) == says


def test_where_there_is_none_that_is_told():
    with pytest.raises(UsageError, match="No earlier conversation found"):
        select_session((), "newest")


def test_only_an_empty_file_is_removed(tmp_path):
    for name, data in (("empty", b""), ("full", b"x")):
        (tmp_path / name).write_bytes(data)
        remove_if_empty(tmp_path / name)
    remove_if_empty(tmp_path / "missing")
    assert [each.name for each in tmp_path.iterdir()] == ["full"]


def test_the_list_fits_a_narrow_screen():
    every = [
        kept("a", "Fix the login test of the project", changed=0),
        kept("b", "", changed=3_000, size=5 << 20),
    ]
    lines = [text.plain for text in format_session_list(every, "/data/b.jsonl", 3_600, Screen(40))]
    assert lines == [
        "no.  when      size  first prompt",
        "  1  1 h       2 KB  Fix the login test…",
        "  2  10 min  5.0 MB  (this one) (no pro…",
        "Resume one with /resume NUMBER.",
    ]


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(-5, "now"), (59, "now"), (60, "1 min"), (7_300, "2 h"), (86_400, "1 day"), (200_000, "2 days")],
)
def test_how_long_ago_is_said_in_short(seconds, said):
    assert format_age(seconds) == said
