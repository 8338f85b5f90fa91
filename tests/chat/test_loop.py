"""The conversation from the outside: what is typed, asked and interrupted."""

import pytest

from everturn.chat.loop import ask_permission, converse
from everturn.chat.model_connection import ModelConnection, connect_to_model
from everturn.chat.permission import PermissionRequest
from everturn.decide.compact.settings import CompactSettings
from everturn.decide.options import ProviderSettings, Secret
from everturn.errors import StoreError
from everturn.measure.prefix_cache import SECONDS
from everturn.session.store.file_system import LocalFileSystem
from everturn.session.upstream import RawResponse, UpstreamError

from .conftest import SUMMARY, Desk, Paper

WISH = PermissionRequest("Bash", "run make test", "make test", "make test …")


def hold(desk: Desk, *typed: str | type[BaseException], **how: object) -> list[str]:
    """What is on the screen after all of this was typed."""
    desk.paper.answers = list(typed)
    converse(desk.agent(**how))  # type: ignore[arg-type]
    return [line for line in desk.paper.lines if line]


def test_a_conversation_ends_where_the_input_ends(desk: Desk):
    desk.twin.script("Good morning.", "Bye.")
    assert hold(desk, "Hello", "See you") == ["Good morning.", "Bye."]


def test_quit_ends_it_before_the_input_does(desk: Desk):
    assert hold(desk, "/quit", "never said") == []
    assert desk.paper.answers == ["never said"]


def test_several_lines_are_one_message(desk: Desk):
    desk.twin.script("I see.")
    hold(desk, "first\\", "second")
    assert b'"first\\nsecond"' in desk.path.read_bytes()


def test_one_interrupt_at_the_prompt_is_forgiven_and_two_leave(desk: Desk):
    desk.twin.script("Good morning.")
    shown = hold(desk, KeyboardInterrupt, "Hello", KeyboardInterrupt, KeyboardInterrupt, "never said")
    hint = "Press Ctrl-C again to exit (or Ctrl-D, or /quit)."
    assert shown == [hint, "Good morning.", hint]
    assert desk.paper.answers == ["never said"]


def test_an_error_of_the_provider_is_told_and_the_prompt_comes_back(desk: Desk):
    desk.twin.faults("overloaded")
    desk.twin.script("Here I am.")
    shown = " ".join(hold(desk, "Hello", "/retry"))
    assert shown.startswith(
        "The API had an internal error. Wait a moment, then /retry. (529 overloaded_error"
    )
    assert shown.endswith("Here I am.")
    assert desk.path.read_bytes().count(b'"Hello"') == 1


def failing(problem: BaseException) -> ModelConnection:
    def send(body: bytes, betas: object) -> RawResponse:
        raise problem

    return ModelConnection(send=send)


@pytest.mark.parametrize(
    ("problem", "says"),
    [
        (UpstreamError(401, "authentication_error", "invalid x-api-key"), "The API rejected the key."),
        (UpstreamError(0, "APIConnectionError", "Connection error."), "Could not connect to the API."),
        (ValueError("a bug"), "Internal error (ValueError: a bug)."),
        (StoreError("The disk is full."), "The disk is full."),
        (KeyboardInterrupt(), "Stopped."),
    ],
)
def test_nothing_that_goes_wrong_in_a_turn_ends_the_conversation(desk: Desk, problem, says):
    shown = hold(desk, "Hello", "/permissions", connection=failing(problem))
    assert shown[0].startswith(says)
    assert shown[-3].startswith("  mode")
    assert b'"Hello"' in desk.path.read_bytes()


def test_without_a_network_the_words_are_kept_and_the_next_line_is_read(desk: Desk):
    connection = connect_to_model(ProviderSettings(api_key=Secret("sk-x"), base_url="http://127.0.0.1:9"))
    shown = hold(desk, "Hello", "/permissions", connection=connection)
    assert shown[0].startswith("Could not connect to the API. Check the network")
    assert shown[1] == "  mode        ask"
    assert b'"Hello"' in desk.path.read_bytes()


def test_an_unknown_model_is_told_and_can_be_changed(desk: Desk):
    desk.twin.script("Now I hear you.")
    shown = " ".join(hold(desk, "Hello", "/model claude-haiku-4-5", "/retry", model="claude-unheard-of"))
    assert "Choose another with /model NAME, then /retry." in shown
    assert shown.endswith("Now I hear you.")


def test_a_command_that_fails_is_a_sentence(desk: Desk):
    assert hold(desk, "/recal login", "/pin") == [
        "Unknown command /recal. Did you mean /recall?",
        "No text to pin; give the text that must be kept.",
    ]


def test_a_status_line_stands_below_an_answer_for_people_and_not_for_programs(desk: Desk):
    desk.twin.script("Yes.", "Yes.")
    assert hold(desk, "Are you there?", "") == ["Yes."]
    desk.agents.pop().close()
    desk.paper = Paper("plain")
    shown = hold(desk, "Are you there?", "")
    assert shown[-2:] == [shown[-1]] * 2
    assert shown[-1].startswith("context ")


@pytest.mark.spec("CP-24")
@pytest.mark.parametrize(
    ("kind", "typed", "is_compacted", "asked"),
    [
        ("plain", ["y"], True, 2),
        ("plain", ["l"], False, 1),
        ("plain", ["n"], False, 1),
        ("plain", [""], False, 1),
        ("plain", [EOFError], False, 1),
        ("pipe", [], False, 0),
    ],
)
@pytest.mark.moves_cache_prefix(reason="a compaction is accepted")
def test_a_message_into_a_cold_cache_is_preceded_by_the_offer_to_compact(
    desk: Desk, kind, typed, is_compacted, asked, monkeypatch
):
    desk.twin.script("It returns None. " * 30, *([SUMMARY] if is_compacted else []), "Yes.", "Still.")
    desk.paper = Paper(kind)
    agent = desk.agent(compact=CompactSettings(cold_share=0.001))
    desk.paper.answers = ["Why does the login fail? " * 30]
    converse(agent)
    assert "Compact before" not in desk.paper.text
    monkeypatch.setitem(SECONDS, "5m", 0)
    # Whoever said no or later is not asked again for the next message.
    desk.paper.answers = ["Are you there?", *typed, "And now?", *(["later"] if is_compacted else [])]
    converse(agent)
    assert " ".join(desk.paper.text.split()).count("Compact before this message is sent?") == asked
    assert ("Compacted: " in desk.paper.text) == is_compacted
    assert [line for line in desk.paper.lines if line in ("Yes.", "Still.")] == ["Yes.", "Still."]


# ── permission ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        (["y"], "once"),
        ([" YES "], "once"),
        (["a"], "always"),
        (["n"], "no"),
        (["what?", "y"], "once"),
        (["what?", "hm", "huh"], "no"),
        ([EOFError], "no"),
    ],
)
def test_a_wish_is_answered_by_a_letter(desk: Desk, typed, answer):
    paper = Paper("plain")
    paper.answers = list(typed)
    assert ask_permission(paper, WISH) == answer
    assert paper.lines == ["Bash: run make test"]


def test_all_of_a_diff_is_shown_to_whoever_asks_for_it(desk: Desk):
    paper = Paper("plain")
    paper.answers = ["s", "y"]
    lines = "\n".join(f"+{n}" for n in range(50))
    assert (
        ask_permission(paper, PermissionRequest("Write", "write a.py", lines, "edits in .", "edit")) == "once"
    )
    assert "  (26 lines more)" in paper.lines
    assert paper.lines[-1] == "  +49"


def test_where_nobody_can_be_asked_the_answer_is_no(desk: Desk):
    assert ask_permission(desk.paper, WISH) == "no"
    assert desk.paper.questions == []


def test_an_interrupt_at_a_question_stops_the_turn(desk: Desk):
    paper = Paper("plain")
    paper.answers = [KeyboardInterrupt]
    with pytest.raises(KeyboardInterrupt):
        ask_permission(paper, WISH)


@pytest.mark.moves_cache_prefix(reason="a compaction is tried by hand")
def test_an_interrupt_while_a_summary_is_written_changes_nothing_and_is_told_once(desk: Desk, monkeypatch):
    desk.twin.script("It returns None. " * 30)
    agent = desk.agent()
    agent.answer("Why does the login fail? " * 30)
    before = desk.path.read_bytes()

    def stops(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(desk.twin.twin, "messages", stops)
    desk.paper.answers = ["/compact"]
    converse(agent)
    assert desk.paper.lines[-1] == "Compaction cancelled; nothing changed."
    assert desk.path.read_bytes() == before


def test_an_interrupt_in_a_command_is_no_unfinished_answer(desk: Desk, monkeypatch):
    def stops(*_: object) -> None:
        raise KeyboardInterrupt

    desk.twin.script("Good morning.")
    monkeypatch.setattr("everturn.chat.commands.context_report", stops)
    assert hold(desk, "/context", "Hello") == ["Stopped.", "Good morning."]
    assert b"stopped your last answer" not in desk.path.read_bytes()


def test_a_turn_that_calls_tools_without_end_is_stopped_and_says_so(desk: Desk, monkeypatch):
    monkeypatch.setattr("everturn.session.session.Session.stream.__kwdefaults__", {"rounds": 1})
    desk.twin.script(desk.call("Glob", pattern="*"), desk.call("Glob", pattern="*"))
    shown = hold(desk, "Look")
    assert shown[-1] == "Stopped: tools were called 1 times in a row. /retry continues."


def test_an_interrupt_in_the_middle_of_an_append_costs_no_word(desk: Desk, monkeypatch):
    desk.twin.script("Good morning.", "Good night.")
    agent, synced = desk.agent(), LocalFileSystem.fsync
    times = iter(range(100))

    def stops_once(self: LocalFileSystem, fd: int) -> None:
        if next(times) == 0:
            raise KeyboardInterrupt
        synced(self, fd)

    monkeypatch.setattr(LocalFileSystem, "fsync", stops_once)
    desk.paper.answers = ["Hello", "Good bye"]
    converse(agent)
    assert desk.paper.lines == ["Stopped.", "Good morning."]
    assert [b'"Hello"' in desk.path.read_bytes(), b'"Good bye"' in desk.path.read_bytes()] == [True, True]
