"""What a line of input means."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everturn.chat.screen.lines import Command, Nothing, Say, goes_on, joined, meaning


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("", Nothing()),
        ("  \n", Nothing()),
        ("Fix the login test. ", Say("Fix the login test.")),
        ("/help", Command("help")),
        ("  /Compact  keep the paths ", Command("compact", "keep the paths")),
        ("/compact --dry-run", Command("compact", "--dry-run")),
        ("/pin two\nlines", Command("pin", "two\nlines")),
        ("/etc/hosts is wrong", Say("/etc/hosts is wrong")),
        ("/etc/hosts", Say("/etc/hosts")),
        ("/ is full", Say("/ is full")),
        ("what does /help do?", Say("what does /help do?")),
        ("half a \udcc3 character", Say("half a � character")),
    ],
)
def test_a_line_is_words_or_a_command_or_nothing(typed, meant):
    assert meaning(typed) == meant


@given(st.text(st.characters(codec=None, categories=None)))
def test_what_is_said_can_always_be_spelled_as_json(typed):
    meant = meaning(typed)
    words = meant.text if isinstance(meant, Say) else getattr(meant, "rest", "")
    assert words.encode().decode() == words
    assert "\0" not in words


@pytest.mark.parametrize(
    ("line", "more"),
    [("a\\", True), ("a\\\\", False), ("\\", True), ("a", False), ("", False), ("a\\ ", False)],
)
def test_a_line_goes_on_where_a_single_backslash_ends_it(line, more):
    assert goes_on(line) is more


def test_lines_that_go_on_are_joined_without_their_backslashes():
    assert joined(["first\\", "second\\", "last"]) == "first\nsecond\nlast"
    assert joined(["only"]) == "only"
