"""What a line of input means."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everturn.chat.screen.input import (
    EmptyInput,
    PromptInput,
    SlashCommand,
    is_continued,
    join_lines,
    parse_input,
)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("", EmptyInput()),
        ("  \n", EmptyInput()),
        ("Fix the login test. ", PromptInput("Fix the login test.")),
        ("/help", SlashCommand("help")),
        ("  /Compact  keep the paths ", SlashCommand("compact", "keep the paths")),
        ("/compact --dry-run", SlashCommand("compact", "--dry-run")),
        ("/pin two\nlines", SlashCommand("pin", "two\nlines")),
        ("/etc/hosts is wrong", PromptInput("/etc/hosts is wrong")),
        ("/etc/hosts", PromptInput("/etc/hosts")),
        ("/ is full", PromptInput("/ is full")),
        ("what does /help do?", PromptInput("what does /help do?")),
        ("half a \udcc3 character", PromptInput("half a � character")),
    ],
)
def test_a_line_is_words_or_a_command_or_nothing(typed, meant):
    assert parse_input(typed) == meant


@given(st.text(st.characters(codec=None, categories=None)))
def test_what_is_said_can_always_be_spelled_as_json(typed):
    meant = parse_input(typed)
    words = meant.text if isinstance(meant, PromptInput) else getattr(meant, "rest", "")
    assert words.encode().decode() == words
    assert "\0" not in words


@pytest.mark.parametrize(
    ("line", "more"),
    [("a\\", True), ("a\\\\", False), ("\\", True), ("a", False), ("", False), ("a\\ ", False)],
)
def test_a_line_goes_on_where_a_single_backslash_ends_it(line, more):
    assert is_continued(line) is more


def test_lines_that_go_on_are_joined_without_their_backslashes():
    assert join_lines(["first\\", "second\\", "last"]) == "first\nsecond\nlast"
    assert join_lines(["only"]) == "only"
