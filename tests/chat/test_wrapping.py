"""Text in pieces: broken between words, harmless, and the same whatever the pieces were."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from everturn.chat.screen.wrapping import StreamWrapper
from everturn.terminal_text import printable

TEXTS = st.text(st.sampled_from("ab c\n\té漢 .")) | st.text()


def written(pieces: list[str], width: int) -> str:
    wrapping = StreamWrapper(width)
    return "".join([*(wrapping.feed(piece) for piece in pieces), wrapping.finish()])


def test_words_go_to_the_next_line_as_a_whole():
    assert written(["one two th", "ree four"], 9) == "one two\nthree\nfour\n"


def test_line_breaks_and_indentation_of_the_text_stay():
    assert written(["def a():\n    return 1\n\ndone"], 40) == "def a():\n    return 1\n\ndone\n"


def test_a_word_that_is_longer_than_a_line_goes_on_below():
    assert written(["abcdefghij kl"], 4) == "abcd\nefgh\nij\nkl\n"


def test_a_wide_character_is_never_cut_in_half():
    assert written(["漢漢漢"], 5) == "漢漢\n漢\n"


def test_without_a_width_text_leaves_as_it_comes():
    wrapping = StreamWrapper()
    assert [wrapping.feed("one tw"), wrapping.feed("o "), wrapping.feed("three"), wrapping.finish()] == [
        "one tw",
        "o",
        " three",
        "\n",
    ]


def test_a_text_that_ends_its_line_gets_no_second_break():
    assert written(["done\n"], 20) == "done\n"
    assert written([], 20) == ""


@given(TEXTS, st.integers(2, 30))
def test_no_line_is_wider_than_the_screen(text, width):
    assert all(cell_len(line) <= width for line in written([text], width).split("\n"))


@given(TEXTS, st.integers(2, 30))
def test_nothing_but_blanks_and_line_breaks_is_lost_or_added(text, width):
    assert "".join(written([text], width).split()) == "".join(printable(text, keeps_lines=True).split())


@given(TEXTS, st.integers(0, 30).filter(lambda width: width != 1), st.data())
def test_how_a_text_is_cut_into_pieces_makes_no_difference(text, width, data):
    at = data.draw(st.integers(0, len(text)))
    # A carriage return alone is no character of a text; with its line feed it is cut apart on purpose.
    whole = text.replace("\r", "")
    assert written([whole[:at], whole[at:]], width) == written([whole], width)


@pytest.mark.parametrize("said", ["\x1b[2Jgone", "a\x07b", "\x9b31m", "‮reversed", "a\rb"])
def test_nothing_that_steers_a_terminal_gets_through(said):
    assert all(each.isprintable() for each in printable(said, keeps_lines=True))


@given(st.text())
def test_harmless_text_is_printable_or_a_line_break(text):
    assert all(each == "\n" or each.isprintable() for each in printable(text, keeps_lines=True))
