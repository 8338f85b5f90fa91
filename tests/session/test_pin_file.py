"""Words pinned from outside of a session."""

import os
from pathlib import Path

import pytest

from everturn.errors import InputError, UsageError
from everturn.session.pin_file import MAX_CHARACTERS, append_pin, pin_file_path, read_pins


def test_pins_come_back_in_order_and_each_once(tmp_path: Path):
    transcript = tmp_path / "a.jsonl"
    assert read_pins(transcript) == ()
    for words in ("Use tabs.", "Zwei\nZeilen", "Use tabs."):
        append_pin(transcript, words)
    assert read_pins(transcript) == ("Use tabs.", "Zwei\nZeilen")


def test_half_of_a_surrogate_pair_is_replaced_and_does_not_end_the_call(tmp_path: Path):
    transcript = tmp_path / "a.jsonl"
    assert append_pin(transcript, "Use \ud83d tabs.") == ("Use \ufffd tabs.",)
    assert read_pins(transcript) == ("Use \ufffd tabs.",)


def test_a_torn_line_is_passed_over_and_the_next_pin_stands_by_itself(tmp_path: Path):
    transcript = tmp_path / "a.jsonl"
    append_pin(transcript, "First.")
    with pin_file_path(transcript).open("ab") as file:
        file.write(b'"Never pu')
    assert append_pin(transcript, "Second.") == ("First.", "Second.")
    assert read_pins(transcript) == ("First.", "Second.")


def test_the_file_is_the_owners_alone_and_no_link_is_followed(tmp_path: Path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("", encoding="utf-8")
    pin_file_path(tmp_path / "linked.jsonl").symlink_to(elsewhere)
    with pytest.raises(InputError, match="is a symbolic link; remove it"):
        append_pin(tmp_path / "linked.jsonl", "Words.")
    assert elsewhere.read_text(encoding="utf-8") == ""
    umask = os.umask(0)
    try:
        append_pin(tmp_path / "own.jsonl", "Words.")
    finally:
        os.umask(umask)
    assert pin_file_path(tmp_path / "own.jsonl").stat().st_mode & 0o777 == 0o600


def test_a_pin_that_was_not_written_whole_is_an_error_and_the_next_one_is_kept(tmp_path: Path, monkeypatch):
    transcript = tmp_path / "a.jsonl"
    append_pin(transcript, "First.")
    write = os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda fd, data: write(fd, data[: len(data) // 2]))
        with pytest.raises(InputError) as raised:
            append_pin(transcript, "Second.")
    path = pin_file_path(transcript)
    why = "only 5 of 11 bytes were written"
    assert str(raised.value) == f"Nothing was pinned: {path} cannot be written: {why}."
    assert append_pin(transcript, "Third.") == ("First.", "Third.")
    assert read_pins(transcript) == ("First.", "Third.")


@pytest.mark.parametrize("words", ["", " \n", "x" * (MAX_CHARACTERS + 1)])
def test_nothing_and_too_much_are_refused_in_words(tmp_path: Path, words: str):
    with pytest.raises(UsageError):
        append_pin(tmp_path / "a.jsonl", words)
    assert list(tmp_path.iterdir()) == []
