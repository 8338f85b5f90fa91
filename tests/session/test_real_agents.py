"""What agents meet beside questions and answers: replies that are cut off or paused, breakpoints of their
own, results without a text, long answers, Ctrl-C at any moment."""

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import everturn
from everturn import Session, Tool
from everturn.errors import UpstreamError
from everturn.history.blocks import fields_of
from everturn.session.hooks.run import CallbackHook, Hooks
from everturn.session.tools import ToolResult
from everturn.twin.testing import TwinForTests
from everturn.view.flatten import flatten

SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}, "content": {"type": "string"}}}
# Longer than the shortest prefix that is cached.
LONG = "Look closely at what the login test has shown. " * 500
NOT_MADE = (
    "This call was not made: the reply ended early (max_tokens), so its input may be incomplete. Make it "
    "again; if it is long, in several shorter calls."
)
SEARCH = Tool({"type": "web_search_20250305", "name": "web_search"})
SEARCHES = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "rain"}}
FOUND = {
    "type": "web_search_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": [
        {"type": "web_search_result", "url": "https://a.test", "title": "A", "encrypted_content": "x"}
    ],
}


def write(path: str, content: str) -> dict[str, Any]:
    return {"type": "tool_use", "name": "write", "input": {"path": path, "content": content}}


@pytest.fixture
def begin(tmp_path: Path, twin: TwinForTests) -> Callable[..., Session]:
    def opened(**how: Any) -> Session:
        chosen: dict[str, Any] = {"model": "claude-opus-4-6", "config": None, "store.fsync": "never", **how}
        chosen.setdefault("client", twin.client(max_retries=0))
        return Session.open(tmp_path / "session.jsonl", clock=twin.twin.clock.now, **chosen)

    return opened


def writing(ran: list[dict[str, Any]], is_callers: bool = False) -> Tool:
    def run(given: Any) -> str:
        ran.append(dict(given))
        return "written"

    definition = {"name": "write", "description": "Writes.", "input_schema": SCHEMA}
    return Tool(definition, None if is_callers else run)


def sent(session: Session) -> list[tuple[str, list[dict[str, Any]]]]:
    messages = flatten(session.conversation.log.view).messages
    return [(message.role, [fields_of(block) for block in message.blocks]) for message in messages]


def results_in(session: Session) -> list[dict[str, Any]]:
    return [block for _, blocks in sent(session) for block in blocks if block["type"] == "tool_result"]


# ── replies that end early ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("how", ["send", "stream"])
def test_a_call_that_max_tokens_cut_off_is_not_made_and_the_model_is_told(begin, twin, how):
    ran: list[dict[str, Any]] = []
    twin.script(
        {"content": [write("a.py", "whole"), write("b.py", "half of")], "stop_reason": "max_tokens"},
        {"content": [write("b.py", "all of it")]},
        "Both are written.",
    )
    with begin(tools=[writing(ran)]) as session:
        pieces = [session.send("Write both.").text] if how == "send" else list(session.stream("Write both."))
        results = [
            block["content"] for _, blocks in sent(session) for block in blocks if "tool_use_id" in block
        ]
    assert "".join(pieces) == "Both are written."
    assert ran == [{"path": "a.py", "content": "whole"}, {"path": "b.py", "content": "all of it"}]
    assert results == ["written", NOT_MADE, "written"]


def test_a_model_whose_calls_never_fit_is_stopped_before_its_rounds_are_used_up(begin, twin):
    ran: list[dict[str, Any]] = []
    cut = {"content": [write("b.py", "half of")], "stop_reason": "max_tokens"}
    twin.script(*[cut] * 3, "I wrote less.")
    with begin(tools=[writing(ran)]) as session:
        reply = session.send("Write it.")
        assert (reply.calls, reply.stopped) == (
            (),
            "the reply ended early (max_tokens) in a tool call 3 times in a row",
        )
        assert session.send().text == "I wrote less."
    assert (ran, len(twin.ledger)) == ([], 3 + 1)


def test_a_cut_call_that_the_caller_makes_is_said_to_be_cut(begin, twin):
    twin.script({"content": [write("b.py", "half of")], "stop_reason": "max_tokens"})
    with begin(tools=[writing([], is_callers=True)]) as session:
        reply = session.send("Write it.")
    assert ([call.input for call in reply.calls], reply.stopped) == (
        [{"path": "b.py", "content": "half of"}],
        "the reply ended early (max_tokens)",
    )


def test_a_paused_turn_goes_on_by_itself(begin, twin):
    twin.script(
        {"content": [SEARCHES], "stop_reason": "pause_turn"},
        {"content": [FOUND, {"type": "text", "text": "It rains."}]},
    )
    with begin(tools=[SEARCH]) as session:
        assert session.send("Does it rain?").text == "It rains."
        kinds = [(role, [block["type"] for block in blocks]) for role, blocks in sent(session)]
    assert kinds == [("user", ["text"]), ("assistant", ["server_tool_use", "web_search_tool_result", "text"])]


ENABLED = {"thinking": {"type": "enabled", "budget_tokens": 1_024}}


def test_a_reply_that_paused_without_thinking_is_not_sent_where_thinking_is_demanded(begin, twin):
    twin.script({"content": [SEARCHES], "stop_reason": "pause_turn"}, "Then not.", "Still here.")
    with begin(tools=[SEARCH], model="claude-haiku-4-5") as session:
        assert session.send("Does it rain?", rounds=0).stopped
    with begin(tools=[SEARCH], model="claude-haiku-4-5", **ENABLED) as session:
        with pytest.raises(everturn.UsageError, match="paused in a reply without thinking"):
            session.send()
        assert [session.send("Go on.").text, session.send("Are you there?").text] == [
            "Then not.",
            "Still here.",
        ]
    assert {entry["status"] for entry in twin.ledger} == {200}


@pytest.mark.spec("CP-38")
@pytest.mark.moves_cache_prefix(reason="the mode of thinking changes")
@pytest.mark.parametrize("comes_back", [False, True])
def test_a_search_beside_calls_ends_where_these_are_told_as_text(begin, twin, comes_back):
    """With thinking switched on, the API takes no tool loop that began without it."""
    tools = [SEARCH, writing([], is_callers=True)]
    first = {**write("a.py", "x"), "id": "toolu_1"}
    twin.script({"content": [SEARCHES, first]})
    with begin(tools=tools, model="claude-haiku-4-5") as session:
        session.send("Does it rain? Write it down.")
        last = "toolu_1"
        if comes_back:
            twin.script({"content": [FOUND, {**write("b.py", "y"), "id": "toolu_2"}]})
            session.send([ToolResult("toolu_1", "written")])
            last = "toolu_2"
    for more in ([ToolResult(last, "written")], "Are you there?"):
        twin.script("It rains.")
        with begin(tools=tools, model="claude-haiku-4-5", **ENABLED) as session:
            assert session.send(more).text == "It rains."
            kinds = [[block["type"] for block in blocks] for role, blocks in sent(session) if role != "user"]
            assert kinds[0] == ["server_tool_use", "web_search_tool_result", "text"]
            assert ("https://a.test" in str(sent(session))) == comes_back
    assert {entry["status"] for entry in twin.ledger} == {200}


IN_SHORT = {"content": f"<summary>{LONG[:900]}</summary>", "when": "<summary>"}
FOUND_TOOLS = [{"type": "tool_reference", "tool_name": name} for name in ("write", "gone")]
TOOL_SEARCH = {
    "type": "server_tool_use", "id": "srvtoolu_2", "name": "tool_search_tool_regex", "input": {"query": "a"}
}  # fmt: skip
TOOLS_FOUND = {
    "type": "tool_search_tool_result",
    "tool_use_id": "srvtoolu_2",
    "content": {"type": "tool_search_tool_search_result", "tool_references": FOUND_TOOLS},
}


@pytest.mark.spec("TR-11", "CP-38")
@pytest.mark.moves_cache_prefix(reason="the tools change in between")
@pytest.mark.parametrize("strategy", ["fork", "direct"])
def test_a_session_goes_on_without_a_tool_that_a_search_had_found(begin, twin, strategy):
    """The API refuses a reference to a tool that the request does not define."""
    gone = Tool({**writing([]).definition, "name": "gone"}, lambda given: "x")
    seeker = Tool({**writing([]).definition, "name": "find"}, lambda given: FOUND_TOOLS)
    finds = {"type": "tool_use", "name": "find", "input": {}}
    twin.script({"content": [TOOL_SEARCH, TOOLS_FOUND, finds]}, LONG)
    with begin(tools=[seeker, writing([]), gone]) as session:
        session.send("What can you do?")
    twin.script("Less than before.", IN_SHORT)
    with begin(tools=[seeker, writing([])], compact={"strategies": [strategy]}) as session:
        reply = session.send("And now?")
        messages = reply.exchange.turn.captured.messages
        said = [fields_of(each) for message in messages for each in message.blocks if "result" in each.kind]
        assert isinstance(session.compact(), everturn.Compaction)
    assert reply.text == "Less than before."
    assert said[0]["content"]["tool_references"] == FOUND_TOOLS[:1]
    assert said[1]["content"] == [FOUND_TOOLS[0], {"type": "text", "text": "[reference to the tool gone]"}]
    assert {entry["status"] for entry in twin.ledger} == {200}


@pytest.mark.parametrize("strategy", ["fork", "direct"])
def test_a_summary_is_written_while_a_search_and_a_call_are_open(begin, twin, strategy):
    first = {**write("a.py", "x"), "id": "toolu_1"}
    twin.script(
        {"content": [{"type": "text", "text": LONG}, SEARCHES, first]},
        IN_SHORT,
    )
    with begin(tools=[SEARCH, writing([], is_callers=True)], compact={"strategies": [strategy]}) as session:
        session.send("Does it rain? Write it down.")
        session.compact()
    assert {entry["status"] for entry in twin.ledger} == {200}


def test_what_a_hook_says_behind_a_paused_reply_leaves_its_thinking_valid(begin, twin):
    how = {"model": "claude-opus-5-5", "thinking": {"type": "adaptive"}, "tools": [SEARCH]}
    twin.script({"content": [THOUGHT, SEARCHES], "stop_reason": "pause_turn"}, "Then not.", "Still here.")
    with begin(**how) as session:
        twin.faults({"kind": "overloaded", "after": 1})
        with pytest.raises(UpstreamError, match="Overloaded"):
            session.send("Does it rain?")
    says = {"hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": "It is Monday."}}
    with begin(**how, hooks=Hooks((CallbackHook("SessionStart", lambda _: says),))) as session:
        assert [session.send().text, session.send("Are you there?").text] == ["Then not.", "Still here."]
    assert {entry["status"] for entry in twin.ledger} == {200, 529}


def test_a_paused_turn_that_nobody_continues_is_not_the_end_of_the_session(begin, twin):
    twin.script({"content": [SEARCHES], "stop_reason": "pause_turn"}, "Then not.", "Still here.")
    with begin(tools=[SEARCH]) as session:
        twin.faults({"kind": "overloaded", "after": 1})
        with pytest.raises(UpstreamError, match="Overloaded"):
            session.send("Does it rain?")
        assert session.send("Never mind.").text == "Then not."
    with begin(tools=[SEARCH]) as session:
        assert session.send("Are you there?").text == "Still here."
        said = sent(session)[1]
    error = {"type": "web_search_tool_result_error", "error_code": "unavailable"}
    ended = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": error}
    assert said == ("assistant", [SEARCHES, ended])


def test_the_last_round_of_a_paused_turn_says_how_it_goes_on(begin, twin):
    twin.script(
        {"content": [SEARCHES], "stop_reason": "pause_turn"},
        {"content": [FOUND, {"type": "text", "text": "It rains."}]},
    )
    with begin(tools=[SEARCH]) as session:
        stopped = session.send("Does it rain?", rounds=0).stopped
        assert (stopped, session.send().text) == ("the model paused; `send()` lets it go on", "It rains.")


SUMMARY = "<summary>1. The user asks whether it rains; a search for it was under way.</summary>"
THOUGHT = {"type": "thinking", "thinking": "Rain needs clouds. "}


@pytest.mark.parametrize("open_call", [[SEARCHES], []], ids=["open call", "no open call"])
def test_a_paused_turn_goes_on_with_its_thinking_where_the_api_demands_it(begin, twin, open_call):
    search = [{"type": "text", "text": "I look."}, *open_call]
    twin.script(
        {"content": [THOUGHT, *search], "stop_reason": "pause_turn"},
        {"content": [*([FOUND] if open_call else []), {"type": "text", "text": "It rains."}]},
        "You are welcome.",
    )
    thinking = {"type": "enabled", "budget_tokens": 1_024}
    with begin(model="claude-haiku-4-5", tools=[SEARCH], thinking=thinking, max_tokens=4_000) as session:
        assert session.send("Does it rain?").text == "It rains."
        assert session.send("Thank you.").text == "You are welcome."
    assert [row["status"] for row in twin.ledger] == [200, 200, 200]


@pytest.mark.spec("MC-13")
@pytest.mark.parametrize("declares", [True, False])
def test_thinking_is_sent_again_where_the_request_asks_to_keep_it(begin, twin, declares):
    """claude-haiku-4-5 is shown only the thinking of the last turn, unless a request asks for all of it."""
    twin.script(*[{"content": [THOUGHT, {"type": "text", "text": "Rain."}]}] * 3)
    how = {"model": "claude-haiku-4-5", "thinking": {"type": "enabled", "budget_tokens": 1_024}}
    with begin(**how, max_tokens=4_000, micro={"declare": declares}) as session:
        for number in range(3):
            session.send(f"Question {number}: does it rain?")
        kinds = [block["type"] for _, blocks in sent(session) for block in blocks]
    assert kinds.count("thinking") == (3 if declares else 1)
    assert [row["status"] for row in twin.ledger] == [200] * 3


def test_a_summary_of_a_paused_turn_is_accepted_as_a_fork(begin, twin):
    again = {**SEARCHES, "id": "srvtoolu_2"}
    paused = [{"content": [search], "stop_reason": "pause_turn"} for search in (SEARCHES, again)]
    twin.script(*["Noted. " * 200] * 3, *paused, SUMMARY, "It rains.")
    with begin(tools=[SEARCH], compact={"strategies": ["fork"]}) as session:
        for _ in range(3):
            session.send(LONG)
        session.send("Does it rain?", rounds=1)
        made = session.compact()
        assert isinstance(made, everturn.Compaction)
        assert [(each.strategy, each.problem) for each in made.attempts] == [("fork", "")]
        assert session.send("And now?").text == "It rains."
    assert [row["status"] for row in twin.ledger] == [200] * 7


def test_a_hook_that_forbids_every_compaction_is_named_when_the_prompt_is_too_long(begin, twin):
    veto = CallbackHook("PreCompact", lambda _: {"decision": "block", "reason": "not on Fridays"})
    with (
        begin(model="claude-haiku-4-5", hooks=Hooks((veto,))) as session,
        pytest.raises(UpstreamError) as told,
    ):
        session.send("A long line of a log. " * 60_000)
    assert told.value.message.endswith(
        "(The conversation was not compacted: a PreCompact hook does not allow it: not on Fridays)"
    )


# ── what callers and tools give ──────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("ttl", ["5m", "1h"])
def test_breakpoints_of_the_program_never_become_more_than_the_api_allows(begin, twin, ttl):
    control = {"cache_control": {"type": "ephemeral", "ttl": ttl}}
    tool = Tool({"name": "look", "description": "Looks.", "input_schema": SCHEMA, **control})
    with begin(system=LONG, tools=[tool]) as session:
        for number in range(6):
            call = {"type": "tool_use", "id": f"toolu_{number}", "name": "look", "input": {}}
            twin.script({"content": [call]}, f"Answer {number}.")
            session.send([{"type": "text", "text": f"Question {number}.", **control}])
            parts = [{"type": "text", "text": "seen", **control}]
            result = ToolResult(f"toolu_{number}", parts)
            given = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": parts, **control}
            assert session.send([result if number % 2 else given]).text == f"Answer {number}."
        kept = [block for role, blocks in sent(session) if role == "user" for block in blocks]
    assert [block for block in kept if "cache_control" in str(block)] == []
    assert kept[:2] == [
        {"type": "text", "text": "Question 0."},
        {"type": "tool_result", "tool_use_id": "toolu_0", "content": [{"type": "text", "text": "seen"}]},
    ]


def test_a_result_with_an_empty_text_does_not_end_the_session(begin, twin):
    twin.script({"content": [write("a.py", "")]}, "Done.")
    empty = {"type": "text", "text": ""}
    tool = Tool(writing([]).definition, lambda given: [empty, {"type": "text", "text": "ok"}, empty])
    with begin(tools=[tool]) as session:
        assert session.send("Write it.").text == "Done."
        results = [
            block["content"] for _, blocks in sent(session) for block in blocks if "tool_use_id" in block
        ]
    assert results == [[{"type": "text", "text": "ok"}]]


def test_a_long_answer_that_the_sdk_only_streams_is_streamed(begin, twin):
    twin.script("A long answer.")
    with begin(max_tokens=64_000) as session:
        reply = session.send("Tell me all.")
    assert (reply.text, reply.exchange.response.reply.stop_reason) == ("A long answer.", "end_turn")


# ── threads and interrupts ───────────────────────────────────────────────────────────────────────


def test_streams_that_end_in_another_order_leave_the_session_to_other_threads(begin, twin):
    twin.script("First. " * 20, "Second. " * 20, "Third.")
    heard: list[str] = []
    with begin() as session:
        one, other = session.stream("One?"), session.stream("Two?")
        next(one), next(other)
        one.close()
        other.close()
        twin.script()
        thread = threading.Thread(target=lambda: heard.append(session.send("Three?").text))
        thread.start()
        thread.join()
    assert len(heard) == 1


class Interrupt:
    """Raises KeyboardInterrupt at the n-th line of one of our functions, as Ctrl-C may."""

    def __init__(self, function: str, line: int) -> None:
        self.function, self.left = function, line
        self.source = str(Path(everturn.__file__).parent)

    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        code = frame.f_code
        is_it = code.co_qualname == self.function and code.co_filename.startswith(self.source)
        return self._line if is_it else None

    def _line(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            self.left -= 1
            if self.left == 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return self._line


APPENDS = "JsonlStore._write.<locals>.steps"
# While the request is measured, while a line is written, and between the file and what is in memory.
PLACES = [
    ("Outline._measure_from", 3),
    (APPENDS, 3),
    (APPENDS, 9),
    ("Conversation.record_reply", 2),
    ("ConversationRunner.record_reply", 4),
]


@pytest.mark.parametrize(("function", "line"), PLACES)
def test_ctrl_c_between_any_two_steps_leaves_a_session_that_goes_on(begin, twin, function, line):
    at, interrupt = 2, Interrupt(function, line)
    with begin(system="Be brief.") as session:
        for number in range(5):
            twin.script(f"Answer {number}.")
            try:
                if number == at:
                    sys.settrace(interrupt)
                session.send(f"Question {number}.")
            except KeyboardInterrupt:
                session.context()
            finally:
                sys.settrace(None)
        live = sent(session)
    assert interrupt.left == 0
    with begin(system="Be brief.") as session:
        assert (sent(session), session.remarks) == (live, [])
    said = str(live)
    assert [number for number in range(5) if f"Question {number}." not in said and number != at] == []


def test_ctrl_c_while_a_pin_is_written_leaves_a_session_that_goes_on(begin, twin):
    with begin() as session:
        session.send("Question 0.")
        sys.settrace(Interrupt(APPENDS, 3))
        try:
            with pytest.raises(KeyboardInterrupt):
                session.pin("Never push to main.")
        finally:
            sys.settrace(None)
        session.pin("Never push.")
        twin.script("Answer 1.")
        assert session.send("Question 1.").text == "Answer 1."


def test_a_hook_may_pin_while_its_session_waits_for_it(begin, twin):
    twin.script("Answer.")
    sessions: list[Session] = []
    pins = CallbackHook("UserPromptSubmit", lambda payload: sessions[0].pin("Never push to main."))
    with begin(hooks=Hooks((pins,))) as session:
        sessions.append(session)
        assert session.send("Question.").text == "Answer."
        assert [pin.text for pin in session.conversation.log.view.pins] == ["Never push to main."]


def test_ctrl_c_while_the_model_answers_does_not_read_the_file_again(begin, twin):
    twin.script("A long answer. " * 20, "Then this.")
    with begin() as session:
        pieces = session.stream("Question 0.")
        next(pieces)
        with pytest.raises(KeyboardInterrupt):
            pieces.throw(KeyboardInterrupt)
        before = session.conversation
        twin.script("Then this.")
        session.send("Question 1.")
        assert session.conversation is before


@pytest.mark.parametrize("how", ["send", "stream"])
def test_a_tool_that_rewinds_its_session_is_answered_from_there(begin, twin, how):
    twin.script("Noted.", {"content": [write("a.py", "")]}, "From here then.", "Goodbye.")
    held: list[Session] = []

    def rewinds(_: Any) -> str:
        users = [each for each in held[0].conversation.log.records if each.kind == "user"]
        held[0].rewind(users[1].uuid)
        return "rewound"

    definition = {"name": "write", "description": "Writes.", "input_schema": SCHEMA}
    with begin(tools=[Tool(definition, rewinds)]) as session:
        held.append(session)
        session.send("Remember <<1>>.")
        said = session.send if how == "send" else lambda words: list(session.stream(words))
        said("Forget it <<2>>.")
        session.send("And now?")
        texts = [block.get("text") for _, blocks in sent(session) for block in blocks if "text" in block]
    (orphan,) = [text for text in texts if text.endswith("]\nrewound")]
    assert texts == ["Remember <<1>>.", "Noted.", orphan, "From here then.", "And now?", "Goodbye."]
