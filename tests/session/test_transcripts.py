"""Session files are opened, or it is said in words why not."""

import gzip
import io
import os
import sys

import pytest
from small_session import reading

from everturn import safe_files
from everturn.errors import InputError, NotASession
from everturn.session.transcripts import open_transcript, parse_transcript
from everturn.wire.claude_code_reader import parse_session_file


def message_of(path) -> str:
    with pytest.raises(InputError) as caught:
        open_transcript(path)
    return str(caught.value)


def test_a_session_file_is_read_whole(tmp_path):
    data = reading().to_bytes()
    (tmp_path / "a.jsonl").write_bytes(data)
    found = open_transcript(tmp_path / "a.jsonl")
    assert (found.lines, found.flaws) == (parse_session_file(data).lines, ())


def test_an_interrupt_while_a_file_is_opened_stays_an_interrupt_and_closes_it_once(tmp_path, monkeypatch):
    (tmp_path / "a.jsonl").write_bytes(reading().to_bytes())

    def opened_and_interrupted(fd, mode):
        # What an unfinished call leaves behind closes itself.
        open(fd, mode).close()
        raise KeyboardInterrupt

    monkeypatch.setattr(safe_files, "open", opened_and_interrupted, raising=False)
    with pytest.raises(KeyboardInterrupt):
        open_transcript(tmp_path / "a.jsonl")


def test_an_empty_file_is_an_empty_session(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(b"")
    assert open_transcript(tmp_path / "a.jsonl").records == ()
    assert parse_transcript(b" \n\n", "it").records == ()


def test_a_link_that_leads_nowhere_is_told_with_its_target(tmp_path):
    (tmp_path / "session.jsonl").symlink_to("gone.jsonl")
    assert message_of(tmp_path / "session.jsonl") == (
        f"{tmp_path}/session.jsonl is a symbolic link to gone.jsonl, which does not exist; "
        "correct or remove it."
    )


def test_a_missing_file_names_at_most_three_that_are_spelled_alike(tmp_path):
    for name in (
        "session1.jsonl",
        "session2.jsonl",
        "session3.jsonl",
        "session4.jsonl",
        "session.txt",
        "zzz.jsonl",
    ):
        (tmp_path / name).touch()
    said = message_of(tmp_path / "sesion1.jsonl")
    assert said.startswith(
        f"No file {tmp_path}/sesion1.jsonl found. Did you mean {tmp_path}/session1.jsonl, "
    )
    assert said.count(".jsonl") == 4
    assert message_of(tmp_path / "quite-different") == f"No file {tmp_path}/quite-different found."
    assert message_of(tmp_path / "no" / "a").endswith(f"The folder {tmp_path}/no does not exist either.")


def test_a_directory_is_answered_with_its_newest_sessions(tmp_path):
    assert message_of(tmp_path).endswith(
        "is a directory; name one session file in it (it holds no .jsonl file)."
    )
    for name, changed in {"new": 30, "newer": 40, "old": 20, "older": 10}.items():
        (tmp_path / f"{name}.jsonl").touch()
        os.utime(tmp_path / f"{name}.jsonl", (0, changed))
    names = [f"{tmp_path}/{name}.jsonl" for name in ("newer", "new", "old")]
    assert message_of(tmp_path).endswith(f"for example the newest: {names[0]}, {names[1]} or {names[2]}.")


def test_what_cannot_be_read_is_said_with_the_reason(tmp_path):
    assert message_of(tmp_path / "a\0b").endswith("Check the name and its permissions.")
    (tmp_path / "file").touch()
    assert message_of(tmp_path / "file" / "a.jsonl") == (
        f"{tmp_path}/file/a.jsonl cannot be read: Not a directory. Check the name and its permissions."
    )


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"\x89PNG\r\n\x1a\n\x00\x00", "a PNG picture."),
        (gzip.compress(b"hello", mtime=0), "gzip-compressed data."),
        (
            gzip.compress(reading().to_bytes()),
            "gzip-compressed data of a session (decompress it first: gzip -dc FILE | everturn context -).",
        ),
        (b"\x1f\x8b broken", "gzip-compressed data."),
        (b"\x00\x01\x02", "binary data."),
        (b"caf\xe9 au lait, s'il vous pla\xeet", "text that is not UTF-8, or binary data."),
        (b"Dear diary,\n", "plain text."),
        (b'{"a": 1}', "a JSON document."),
        (b'[{"type": "user"}]', "a JSON document."),
        (b'{"a": 1}\n{"a": 2}\n', "JSON lines that are not session records."),
        (b"<!doctype html><p>", "an HTML page."),
        (b"<?xml version='1.0'?>", "XML."),
    ],
)
def test_what_is_no_session_is_named_for_what_it_looks_like(data, what):
    with pytest.raises(NotASession) as caught:
        parse_transcript(data, "it")
    assert str(caught.value).startswith(f"it is not a session file: it looks like {what} Give ")


def test_a_damaged_session_opens_all_the_same():
    data = reading().to_bytes()
    torn = parse_transcript(data[:-40], "it")
    assert len(torn.records) >= len(reading().lines) - 1
    assert [flaw.kind for flaw in torn.flaws] == ["torn"]


def test_a_dash_is_standard_input(monkeypatch):
    data = reading().to_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert open_transcript("-").lines == parse_session_file(data).lines


def test_reading_tells_how_far_it_is(tmp_path):
    data = reading().to_bytes()
    (tmp_path / "a.jsonl").write_bytes(data)
    told: list[tuple[int, int]] = []
    open_transcript(tmp_path / "a.jsonl", lambda done, size: told.append((done, size)))
    assert told == [(len(data), len(data))]
