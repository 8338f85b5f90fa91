"""Lines, files, names and ids: cut the same way in outputs and in blocks."""

import base64
import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everturn.replay.refetches.strings import (
    LONGEST_WORD,
    MAX_IDENTIFIER_CHARS,
    MAX_LINE_CHARS,
    StringMatcher,
    files,
    ids,
    lines,
    names,
    occurs_in,
    path_suffixes,
)


def test_a_line_needs_twelve_visible_characters():
    assert list(lines("a b c d e f g h i j k\nabcdefghijkl\n\treturn None\n")) == ["abcdefghijkl"]


@pytest.mark.parametrize(
    "shown",
    [
        "total = price * count",
        "\ttotal = price * count  ",
        "     7→    total = price * count",
        "12\ttotal = price * count",
        "src/shop.py:12:    total = price * count",
        "src/shop.py:12-    total = price * count\r",
        "12:    total = price * count",
        "12-    total = price * count",
    ],
)
def test_a_line_is_the_same_line_however_a_tool_shows_it(shown):
    assert list(lines(shown)) == ["total = price * count"]


def test_a_time_or_a_date_is_no_line_number():
    said = ["12:30 lunch with the team", "2026-11-16 released"]
    assert list(lines("\n".join(said))) == said


@pytest.mark.spec("RP-14")
@pytest.mark.parametrize(
    ("shown", "is_held"),
    [
        ("src/shop.py:    total = price * count", True),
        ("lib.py:def f():\nsrc/shop.py:total = price * count\r\n", True),
        ("shop.py: total = price * count + 1", False),
        ("note:total = price * count", False),
        ("see src/shop.py:total = price * count", False),
    ],
)
def test_a_line_that_a_search_shows_behind_its_file_is_that_line(shown, is_held):
    needed = ("old_text", "total = price * count")
    assert StringMatcher([needed]).held(shown) == ({needed} if is_held else set())


@pytest.mark.parametrize(
    ("word", "ends"),
    [
        ("/home/me/app/src/shop.py", ("src/shop.py", "shop.py")),
        ("src/shop.py", ("src/shop.py", "shop.py")),
        ("./shop.py.", ("shop.py",)),
        ("shop.py", ("shop.py",)),
        ("/home/me/app", ("me/app",)),
        ("github.com/some/thing", ("some/thing",)),
        ("../lib", ()),
        ("../lib/core", ("lib/core",)),
        ("and/or", ()),
        ("self.parser", ()),
        ("2026/01/05", ()),
        ("issues/112/comments", ()),
        ("/dev/null", ()),
        ("/usr/bin/env", ()),
        ("done.", ()),
        ("...", ()),
        ("x/" * LONGEST_WORD + "a.py", ()),
    ],
)
def test_a_path_is_known_by_its_last_folder_and_its_name(word, ends):
    assert path_suffixes(word) == ends


@pytest.mark.spec("RP-14")
def test_files_are_found_in_prose_and_in_commands_and_folders_and_patterns_are_none():
    text = "See `src/shop.py:12`, then run pytest --cov=lib/core/x tests/*_test.go > /dev/null (or shop.py)."
    assert list(files(text)) == ["src/shop.py", "shop.py"]


@pytest.mark.spec("RP-14")
def test_names_are_made_up_words_and_ids_are_codes_but_not_numbers():
    text = "parse_line(HttpClient) at 3f2a1bc for HAT136 and 1656367028, however GitHub returned a response"
    assert names(text) == ["parse_line", "httpclient"]
    assert ids(text) == ["3f2a1bc", "HAT136"]


@pytest.mark.spec("RP-14")
def test_names_of_tools_that_every_request_describes_are_left_out():
    assert names("MultiEdit, NotebookRead, TodoWrite, WebFetch and PriceTable") == ["pricetable"]


@pytest.mark.spec("RP-14")
def test_names_of_a_library_and_names_that_a_text_declares_are_left_out():
    text = "os.MkdirAll(x)\nfunc (s *Shop) priceOf(count int)\nnewTotal := oldTotal + 1\\nWarningText"
    assert names(text) == ["oldtotal", "warningtext"]


def test_short_names_plain_words_and_data_are_no_identifiers():
    too_long = "aB" * MAX_IDENTIFIER_CHARS
    text = f"a_b aBcde configuration SHA256 in_progress 1234567 {too_long}"
    assert (names(text), ids(text)) == ([], [])


def test_a_sieve_finds_whole_strings_only():
    needed = [
        ("old_text", "total = price * count"),
        ("file", "src/shop.py"),
        ("file", "shop.py"),
        ("argument", "shop.py"),
        ("name", "parse_line"),
    ]
    sieve = StringMatcher(needed)
    assert sieve.held("total = price * count # why\nparse_lines resrc/shop.pyc") == set()
    assert sieve.held("x.parse_line(/a/src/shop.py)\n  3→ total = price * count") == set(needed)
    assert sieve.held("lib/shop.py") == {("file", "shop.py"), ("argument", "shop.py")}
    assert sieve.held("PARSE_LINE") == {("name", "parse_line")}


def test_the_ends_of_replaced_text_and_ids_may_be_parts():
    needed = [("partial", "price * count"), ("id", "3f2a1bc")]
    assert StringMatcher(needed).held("total = price * count # 3f2a1bc77") == set(needed)


@pytest.mark.parametrize(
    ("needed", "text", "stands"),
    [
        (("old_text", "total = price * count"), "- it said `total = price * count;`", True),
        (("name", "parse_line"), "parse_lines and reparse_line", False),
        (("name", "parse_line"), "call `Parse_Line` first", True),
        (("file", "src/shop.py"), "in /home/me/src/shop.py.", True),
        (("file", "src/shop.py"), "in notsrc/shop.py", False),
    ],
)
def test_a_summary_holds_what_stands_in_it_as_a_word(needed, text, stands):
    assert occurs_in(needed, text) is stands


def test_long_lines_are_told_by_their_beginning():
    line = "word " * MAX_LINE_CHARS
    assert list(lines(line + "one")) == list(lines(line + "two")) == [line[:MAX_LINE_CHARS]]


@given(st.text(alphabet="aB1_ ./:→\t\n-*`>", max_size=200))
def test_what_a_text_needs_it_also_holds(text):
    needed = {
        *(("quoted", line) for line in lines(text)),
        *(("file", path) for path in files(text)),
        *(("name", name) for name in names(text)),
        *(("id", each) for each in ids(text)),
    }
    assert StringMatcher(needed).held(text) == needed


DATA = base64.b64encode(random.Random(1).randbytes(750_000)).decode()


@pytest.mark.parametrize("text", ["a" * 10**6, "a/" * 10**6, "." * 10**6, "a:1" * 10**6, " " * 10**6, DATA])
def test_a_huge_line_costs_its_length(text):
    before = time.process_time()
    list(lines(text)), list(files(text)), names(text), ids(text), StringMatcher([("file", "a/a")]).held(text)
    # A pattern that started anew inside a word would take hours, not seconds.
    assert time.process_time() - before < 5


@pytest.mark.parametrize(
    ("text", "beside", "is_held"),
    [
        ("src:\ntotal 8\nshop.py\ntext.py", "", True),
        ("shop.py\ntext.py", '{"command": "ls /app/src"}', True),
        ("shop.py\ntext.py", '{"command": "ls /app/srcs"}', False),
        ("shop.py\ntext.py", "", False),
        # A path of another folder is not a name alone.
        ("lib/shop.py", '{"command": "ls src lib"}', False),
    ],
)
def test_a_list_of_names_holds_a_path_if_it_is_read_with_its_folder(text, beside, is_held):
    needed = ("argument", "src/shop.py")
    assert StringMatcher([needed]).held(text, beside) == ({needed} if is_held else set())
