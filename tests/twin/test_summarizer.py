import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everturn.twin.parse import parse_request
from everturn.twin.summarizer import MAX_QUOTE, MAX_QUOTE_AGAIN, summarize
from everturn.view.fragments.summary_prompt import summary_prompt

SECTIONS = [
    "1. Primary Request and Intent:",
    "2. Key Technical Concepts:",
    "3. Files and Code Sections:",
    "4. Errors and fixes:",
    "5. Problem Solving:",
    "6. All user messages:",
    "7. Pending Tasks:",
    "8. Current Work:",
    "9. Optional Next Step:",
]


ASKING = summary_prompt("full")


def messages(*contents):
    turns = [{"role": ("user", "assistant")[n % 2], "content": content} for n, content in enumerate(contents)]
    body = {"model": "claude-haiku-4-5", "max_tokens": 9, "messages": turns}
    return parse_request("messages", {}, json.dumps(body).encode(), workspace="k").messages


TALK = messages(
    "Fix the crash in src/app.py",
    [{"type": "tool_use", "id": "t1", "name": "read", "input": {"path": "src/app.py"}}],
    [{"type": "tool_result", "tool_use_id": "t1", "content": "line 1\nValueError: bad port\nline 3"}],
    "I fixed the port.",
    "No, do not touch the port; use parse_port from lib/net.py",
)


def section(summary, title):
    rest = summary.split(title, 1)[1]
    return rest.split("\n\n", 1)[0].removesuffix("\n</summary>").strip()


@pytest.mark.spec("TW-8")
def test_a_summary_keeps_user_messages_files_and_errors():
    summary = summarize(TALK)
    assert section(summary, SECTIONS[5]).splitlines() == [
        "- Fix the crash in src/app.py",
        "   - No, do not touch the port; use parse_port from lib/net.py",
    ]
    assert section(summary, SECTIONS[1]) == "- parse_port"
    assert section(summary, SECTIONS[2]) == "- src/app.py\n   - lib/net.py"
    assert section(summary, SECTIONS[3]) == "- ValueError: bad port"
    assert section(summary, SECTIONS[4]) == "- read: 1 calls"
    assert section(summary, SECTIONS[7]) == "I fixed the port."


@pytest.mark.spec("TW-8")
def test_a_summary_has_nine_sections_in_its_tags_and_is_the_same_each_time():
    summary = summarize(TALK)
    assert summary == summarize(TALK)
    assert [line for line in summary.splitlines() if line in SECTIONS] == SECTIONS
    assert (summary.startswith("<summary>\n"), summary.endswith("\n</summary>")) == (True, True)


def test_instructions_are_repeated_in_the_summary():
    assert "Focus asked for: only the port" in summarize(TALK, "only the port")


def test_the_request_for_the_summary_is_not_part_of_it():
    assert "Write a summary" not in summarize(messages("Fix it", "Done.", ASKING))


@given(st.lists(st.text(max_size=3000), min_size=1, max_size=30))
def test_a_summary_is_bounded_and_has_one_closing_tag(texts):
    summary = summarize(messages(*(f"{text}</summary>" for text in texts)))
    assert summary.count("</summary>") == 1
    assert len(summary) < 70 * MAX_QUOTE


def said(*texts):
    return [{"type": "text", "text": text} for text in texts]


def test_text_in_the_same_message_as_the_request_for_a_summary_is_kept():
    summary = summarize(messages("Hello", "Hello.", said("Replace a by b in app.py", ASKING)))
    assert section(summary, SECTIONS[5]).splitlines() == ["- Hello", "   - Replace a by b in app.py"]
    assert section(summary, SECTIONS[6]) == "- Replace a by b in app.py"


def test_a_second_summary_lists_what_the_first_one_listed_and_does_not_quote_it():
    long = "Look at every file. " * 50
    first = summarize(messages(long, "Done.", "Now\nrun the tests", "They pass.", ASKING))
    held = first.replace("summary>", "session-summary>")
    reminder = "<system-reminder>3 files were restored.</system-reminder>"
    texts = said(f"This session continues.\n\n{held}\n\nGo on.", reminder, "Thanks")
    second = summarize(messages(texts, "You are welcome.", ASKING))
    assert section(second, SECTIONS[5]).splitlines() == [
        f"- {long[:MAX_QUOTE_AGAIN]} [...]",
        "   - Now",
        "run the tests",
        "   - Thanks",
    ]


@pytest.mark.parametrize(
    ("last", "pending", "next_step"),
    [
        (("Done.", ASKING), "- None.", "None."),
        ((ASKING,), "- Fix it", "Continue with the last request above."),
        (
            ("Done.", said("And the lexer", ASKING)),
            "- And the lexer",
            "Continue with the last request above.",
        ),
    ],
)
def test_a_request_is_pending_until_a_reply_without_a_tool_call(last, pending, next_step):
    summary = summarize(
        messages(said("Fix it", *(last if len(last) == 1 else ())), *last[: len(last) // 2 * 2])
    )
    assert (section(summary, SECTIONS[6]), section(summary, SECTIONS[8])) == (pending, next_step)


def test_text_that_clients_add_to_user_messages_is_not_listed_as_the_users():
    texts = said(
        "<local-command-stdout>rm -rf</local-command-stdout>",
        "<system-reminder>x</system-reminder>",
        "Fix it",
    )
    assert section(summarize(messages(texts, "Done.", ASKING)), SECTIONS[5]) == "- Fix it"
