from typing import get_args

import pytest

from everturn.chat.permission import (
    DECISIONS,
    ActionKind,
    PermissionDenied,
    PermissionMode,
    PermissionRequest,
    Permissions,
    to_one_line,
)
from everturn.decide.extractive.reading.failures import was_refused
from everturn.errors import UsageError
from everturn.history.blocks import text_of
from everturn.session.tools import Tool, ToolCall, run_tools
from everturn.terminal_text import visible

WRITE = PermissionRequest("Write", "write src/a.py (+1 -0)", "diff", "writing in src", "edit")
RUN = PermissionRequest("Bash", "run pytest", "pytest", "pytest …", "command")


class Person:
    def __init__(self, answer):
        self.answer = answer
        self.asked = []

    def __call__(self, request):
        self.asked.append(request)
        return self.answer


def test_every_mode_says_what_every_kind_of_wish_meets():
    assert {mode: set(row) for mode, row in DECISIONS.items()} == {
        mode: set(get_args(ActionKind)) for mode in get_args(PermissionMode)
    }


def test_once_is_asked_again_and_always_is_not():
    for answer, times in (("once", 2), ("always", 1)):
        person = Person(answer)
        permissions = Permissions(person)
        permissions.require(WRITE)
        permissions.require(WRITE)
        assert person.asked == [WRITE] * times


def test_always_covers_its_own_kind_and_key_alone():
    person = Person("always")
    permissions = Permissions(person)
    same_words = PermissionRequest("Bash", "run it", "", WRITE.key, "command")
    other_folder = PermissionRequest("Write", "write b.py", "", "writing in .", "edit")
    for request in (WRITE, same_words, other_folder):
        permissions.require(request)
    assert person.asked == [WRITE, same_words, other_folder]
    assert permissions.always_allowed == (WRITE.key, WRITE.key, "writing in .")


def test_what_was_allowed_for_good_can_be_forgotten():
    person = Person("always")
    permissions = Permissions(person)
    permissions.require(WRITE)
    permissions.forget()
    permissions.require(WRITE)
    assert len(person.asked) == 2


def test_no_is_told_with_what_it_was_said_to():
    with pytest.raises(PermissionDenied, match=r"the user said no to: run pytest\. Do not try"):
        Permissions(Person("no")).require(RUN)


def test_a_summary_knows_a_no_for_what_it_is():
    def run(_):
        Permissions(Person("no")).require(RUN)
        return ""

    (result,), _ = run_tools([ToolCall("c1", "Bash", {})], {"Bash": Tool({"name": "Bash"}, run)})
    assert was_refused(text_of(result))


def test_without_anybody_to_ask_the_answer_is_no():
    assert Permissions().refusal(RUN) != ""


@pytest.mark.parametrize(
    ("mode", "asked", "refused"),
    [
        ("ask", [WRITE, RUN], []),
        ("accept edits", [RUN], []),
        ("read only", [], [WRITE, RUN]),
        ("all", [], []),
    ],
)
def test_a_mode_asks_about_some_wishes_and_refuses_others(mode, asked, refused):
    person = Person("once")
    permissions = Permissions(person, mode)
    assert [request for request in (WRITE, RUN) if permissions.refusal(request)] == refused
    assert person.asked == asked


def test_read_only_refuses_also_what_was_always_allowed():
    permissions = Permissions(Person("always"))
    permissions.require(WRITE)
    permissions.mode = "read only"
    assert permissions.refusal(WRITE) == (
        "the session is read only: not allowed to write src/a.py (+1 -0). Describe what you would do instead."
    )


def test_an_unknown_mode_is_refused_with_those_there_are():
    with pytest.raises(UsageError, match="ask, accept edits, read only, all"):
        Permissions(mode="yolo")  # type: ignore[arg-type]


def test_what_could_hide_a_command_is_spelled_out():
    assert visible("rm -rf x\r\x1b[2Kls\n\tok \u202etxt") == "rm -rf x\\x0d\\x1b[2Kls\n\tok \\u202etxt"
    assert to_one_line("a\nb\x1b c" + "d" * 300, most=12) == "a b\\x1b cdd…"
