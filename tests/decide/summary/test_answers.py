"""What a short message answers: the question, the items that it names, or the whole list."""

import pytest

from everturn.decide.extractive.reading.answers import (
    MAX_QUESTION,
    find_offer,
    find_question,
    is_choice,
    is_consent,
    items_not_mentioned,
)

ALL = ["Issues:", "1. The parser is slow", "2. The cache is cold", "3. A test is flaky"]
LIST = "\n".join(["I found three things.", "", *ALL, "", "Which one?"])


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        pytest.param("2", [ALL[2], "Which one?"], id="one item"),
        pytest.param("1 and 3 please", [ALL[1], ALL[3], "Which one?"], id="two items"),
        pytest.param("3, then 1", [ALL[3], ALL[1], "Which one?"], id="in the order in which they are named"),
        pytest.param("all of them", [*ALL, "Which one?"], id="all"),
        pytest.param("fix these", [*ALL, "Which one?"], id="pointing at the list"),
        pytest.param("the slow thing", [*ALL, "Which one?"], id="an open answer to a question"),
        pytest.param("yes", ["Which one?"], id="consent needs the question only"),
        pytest.param("9", [*ALL, "Which one?"], id="a number that is not in the list"),
        pytest.param("x" * 81, [], id="long enough to stand alone"),
        pytest.param("x" * 80, [*ALL, "Which one?"], id="short enough to need the question"),
        pytest.param("2 " + "x" * 398, [ALL[2], "Which one?"], id="a long message that names an item"),
        pytest.param("2 " + "x" * 399, [], id="too long to be an answer"),
    ],
)
def test_a_message_gets_what_it_needs_of_the_statement_before_it(words, lines):
    assert find_question(words, LIST) == "\n".join(lines)


def test_without_a_question_only_very_short_messages_need_the_statement():
    said = "I can run it.\n\nIt takes a minute."
    assert find_question("x" * 40, said) == "It takes a minute."
    assert find_question("x" * 41, said) == ""
    assert find_question("run it", "") == ""


def test_a_question_is_looked_for_in_the_last_four_paragraphs():
    asked = "Shall I?"
    assert find_question("yes", "\n\n".join([asked, "b", "c", "d"])) == asked
    assert find_question("yes", "\n\n".join([asked, "a", "b", "c", "d"])) == "d"


def test_long_questions_and_items_are_cut():
    question = "w" * 700 + "?"
    assert find_question("yes", question) == "… " + question[-600:]
    item = "1. " + "y" * 300
    assert find_question("1", f"{item}\n2. z\n\nWhich?") == f"{item[:240]} …\nWhich?"
    many = "\n".join(f"{at}. " + "y" * 200 for at in range(1, 20)) + "\n\nWhich?"
    assert len(find_question("all", many)) == MAX_QUESTION == 2_000


def test_of_two_lists_the_last_one_has_the_items_and_both_are_all():
    two = "**First:**\n1. a\n2. b\n\n**Second:**\nA) c\nB) d\n\nWhich?"
    assert find_question("B", two) == "B) d\nWhich?"
    assert find_question("both", two) == "**First:**\n1. a\n2. b\n**Second:**\nA) c\nB) d\nWhich?"
    assert find_question("1", "1. alone\n\nWhich?") == "Which?"


@pytest.mark.parametrize(
    ("words", "consents"),
    [("yes", True), ("Yep, go", True), ("ok", True), ("do it", True), ("no", False), ("yesterday", False)],
)
def test_consent_is_recognised_by_its_first_word(words, consents):
    assert is_consent(words) is consents


@pytest.mark.parametrize(
    ("words", "decides"),
    [
        ("1", True),
        ("option 2 please", True),
        ("let's do 1 and 2", True),
        ("7", False),
        ("explain 2", False),
        ("is 2 safe?", False),
        ("2 " + "x" * 79, False),
        ("later", False),
    ],
)
def test_a_short_message_that_names_an_item_decides(words, decides):
    assert (
        is_choice(words, "Next:\n1. rename it\n2. merge as it is\n\nWould you like me to rename it?")
        is decides
    )
    assert not is_choice(words, "Would you like me to rename it?")


def test_an_offer_is_a_paragraph_that_asks_to_do_something():
    assert find_offer("Done.\n\nWant me to add a test?") == "Want me to add a test?"
    assert find_offer("Done.\n\nIs it right?") == ""
    assert find_offer("Should I add a test. Perhaps.") == ""


def test_items_of_a_request_that_were_not_spoken_of_are_still_open():
    request = "Please:\n1. Fix the parser\n2. Write a test\n3. Tell me"
    assert items_not_mentioned(request, ["Item 1 is done.", "So is #3."]) == ["2. Write a test"]
    assert items_not_mentioned(request, ["All is done."]) == []
    assert items_not_mentioned("Fix it", ["Item 1 is done."]) == []


def test_of_a_long_line_only_the_beginning_says_that_it_is_an_item():
    assert find_question("2", f"1. a\n{' ' * 118}2. b\n\nWhich?") == "2. b\nWhich?"
    assert find_question("2", f"1. a\n3. c\n{' ' * 119}2. b\n\nWhich?") == "1. a\n3. c\nWhich?"


def test_only_the_end_of_a_long_statement_is_searched():
    end = "\n1. a\n2. b\n\nWhich?"
    filled = "1. old\n2. older\n" + "x" * (12_000 - len(end))
    assert find_question("all", filled + end) == "1. a\n2. b\nWhich?"
    assert find_question("yes", "Shall I?\n\n" + "y" * 11_991) == "hall I?"
    assert find_question("yes", "Shall I?\n\n" + "y" * 11_998) == "… " + "y" * 600


def test_a_number_that_was_used_counts_once_and_a_list_may_begin_with_any():
    assert find_question("3", "2. b\n3. c\n3. again\n\nWhich?") == "3. c\nWhich?"
    assert find_question("all", "2. b\n3. c\n3. again\n\nWhich?") == "2. b\n3. c\nWhich?"
    assert find_question("B", "A. first\nB. second\nA. third\nB. fourth\n\nWhich?") == "B. fourth\nWhich?"


def test_the_heading_of_a_list_is_the_last_one_before_it_and_belongs_to_one_list_only():
    said = "# One\n## Two\n1. a\n2. b\ntext\n1. c\n2. d\n\nWhich?"
    assert find_question("all", said) == "## Two\n1. a\n2. b\n1. c\n2. d\nWhich?"


def test_what_is_in_the_question_already_is_not_repeated():
    assert find_question("1", "Which?\n1. a\n2. b") == "Which?\n1. a\n2. b"


def test_pointing_words_name_the_list_in_short_messages_only():
    assert find_question("x" * 74 + " these", LIST) == "\n".join([*ALL, "Which one?"])
    assert find_question("x" * 75 + " these", LIST) == ""
    assert find_question("x" * 90 + " all", LIST) == "\n".join([*ALL, "Which one?"])


def test_texts_as_long_as_their_limit_are_not_cut():
    item = "1. " + "y" * 237
    assert find_question("1", f"{item}\n2. z\n\nWhich?") == f"{item}\nWhich?"
    question = "w" * 599 + "?"
    assert find_question("yes", question) == question


def test_items_are_named_only_in_the_beginning_of_a_long_statement():
    request = "1. Fix the parser\n2. Write a test"
    assert items_not_mentioned(request, ["x" * 11_992 + " item 1 "]) == ["2. Write a test"]
    assert items_not_mentioned(request, ["x" * 11_999 + " item 1 "]) == []
    assert items_not_mentioned("A. Fix\nB. Write", ["Item 1 is done."]) == []
