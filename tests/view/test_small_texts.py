"""Fragments and forks, word by word."""

import builders as b
import pytest
from view.talks import HEAD, PARAMETERS, model, user

from everturn.history.blocks import Block, block_from_fields
from everturn.history.log import Log
from everturn.view.forks import CapturedRequest, make_fork
from everturn.view.fragments.reminder import attachment_words
from everturn.view.fragments.restored import exchange, exchange_text
from everturn.view.fragments.summary_prompt import summary_prompt


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"content": " a "}, "a"),
        ({"content": ["a", "", {"type": "text", "text": "b"}, None, 7, {"c": 1}]}, 'a\nb\n7\n{"c":1}'),
        ({"content": ""}, ""),
        ({"content": None, "x": 1}, '{"type":"hook","content":null,"x":1}'),
        ({"x": 1}, '{"type":"hook","x":1}'),
    ],
)
def test_the_words_of_an_attachment_are_its_content_or_all_of_it(fields, words):
    assert attachment_words(block_from_fields({"type": "hook", **fields})) == words


def test_an_attachment_that_cannot_be_read_is_shown_as_it_is():
    assert attachment_words(Block(kind="attachment", raw=b'{"type":')) == '{"type":'


def test_an_exchange_is_shown_with_its_input_and_its_result():
    text = exchange_text("Edit", {"path": "a.py", "lines": [1, 2]}, "done\n")
    asked, _, answered = text.partition("\n<")
    assert asked == "[Edit]\npath: a.py\nlines: [1,2]"
    assert answered.split("\n")[1:3] == ["done", ""]
    assert exchange("x")[1] == "x"
    assert exchange("x")[0].startswith("This call was made before the compaction.")


def test_a_summary_is_asked_for_with_the_words_that_it_may_have():
    def asked(tokens: int) -> str:
        return summary_prompt("full", max_tokens=tokens)

    (told,) = set(asked(4_000).split("\n\n")) - set(asked(0).split("\n\n"))
    assert told.startswith("The text in the <summary> tags has at most 3,000 words.")
    named = summary_prompt("full", "  Keep names. ")
    assert "Instructions for this summary:\nKeep names.\n\n" in named
    assert "Instructions for this summary" not in summary_prompt("full", "  ")


def test_a_fork_sends_its_parent_and_its_own_messages():
    parent = CapturedRequest(model(), PARAMETERS, HEAD, (user("a"),), {})
    assert make_fork(parent, (user("b"),)).all_messages == (user("a"), user("b"))


def test_a_log_waits_between_a_boundary_and_its_summary():
    log = Log([b.user("one")])
    assert log.is_compacting is False
    log.append(b.boundary())
    assert log.is_compacting is True
    log.append(b.summary())
    assert log.is_compacting is False
