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


@pytest.mark.parametrize("words", ["", " \n", "x" * (MAX_CHARACTERS + 1)])
def test_nothing_and_too_much_are_refused_in_words(tmp_path: Path, words: str):
    with pytest.raises(UsageError):
        append_pin(tmp_path / "a.jsonl", words)
    assert list(tmp_path.iterdir()) == []
