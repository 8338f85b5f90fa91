import time

import pytest

from everturn.twin.client_tools import ObservedResult, parse_file_list, parse_numbered_lines
from everturn.twin.coding_agent import _parse_recall_hits  # pyright: ignore[reportPrivateUsage]
from everturn.twin.summary_requests import is_summary_prompt
from everturn.twin.user_prompts import extract_summarized_requests, is_from_client, strip_reminders


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("a<system-reminder>x</system-reminder>b", "ab"),
        ("<system-reminder>x</system-reminder><system-reminder>y</system-reminder>", ""),
        ("a<system-reminder>x", "a<system-reminder>x"),
        ("a</system-reminder>b<system-reminder>x</system-reminder>", "a</system-reminder>b"),
        ("a<system-reminder><system-reminder>x</system-reminder>b", "ab"),
    ],
)
def test_reminders_are_removed_from_their_first_tag_to_the_next_closing_tag(text, left):
    assert strip_reminders(text) == left


@pytest.mark.parametrize(
    ("text", "is_clients"),
    [
        ("<local-command-stdout>x", True),
        ("<ide_opened_file>x", True),
        ("<channel source=1>x", True),
        ("<system-reminder>never closed", True),
        ("Continue from where you left off.", True),
        ("<div> is not centered", False),
        ("< 5 items", False),
        ("List<a-b> is a type", False),
        ("", False),
    ],
)
def test_text_that_starts_with_a_tag_of_a_client_is_not_the_users(text, is_clients):
    assert is_from_client(text) is is_clients


def test_the_items_of_a_summary_keep_their_lines_and_nested_lists():
    summary = (
        "<session-summary>\n6. All user messages:\n   - Do:\n      - one\n      - two\n   - Go on\n"
        "7. Pending Tasks:\n   - x\n</session-summary>"
    )
    assert extract_summarized_requests(summary) == ["Do:\n      - one\n      - two", "Go on"]
    assert extract_summarized_requests("no summary") is None


PIECES = [
    "<system-reminder>",
    "<session-summary>",
    "6. a\n",
    "\n",
    "   - \n",
    "1. user, record ",
    "1. a record a record ",
    " 1\t",
    "1",
    " ",
    "Your task is to create a detailed summary of <summary>",
]


@pytest.mark.parametrize("piece", PIECES)
def test_no_text_takes_more_than_linear_time(piece):
    """Doubling the text twice may take four times as long, not sixteen times."""

    def read(text):
        strip_reminders(text)
        extract_summarized_requests(text)
        extract_summarized_requests(f"<session-summary>{text}</session-summary>")
        is_from_client(text)
        is_summary_prompt(text)
        seen = ObservedResult(text)
        parse_file_list(seen)
        parse_numbered_lines(seen)
        _parse_recall_hits(seen)

    def seconds(count):
        text = piece * count
        best = 9.0
        for _ in range(3):
            began = time.process_time()
            read(text)
            best = min(best, time.process_time() - began)
        return best

    small, large = seconds(20_000), seconds(80_000)
    assert large < 9 * small + 0.02
