"""A session as a person's program holds it: from a file, against a twin."""

import asyncio
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import anthropic
import msgspec
import pytest

import everturn
from everturn import AsyncSession, Session, Tool
from everturn.decide.authorship import label_agent_pin
from everturn.decide.compact.values import Compaction, CompactionFailed, CompactionPlan, CompactionSkipped
from everturn.decide.effects import RunHooks
from everturn.decide.events import (
    CacheBroken,
    Compacting,
    CompactionDone,
    CompactionNotDone,
    Event,
    HookTrouble,
    NotesRejected,
    NotesTaken,
    Repaired,
)
from everturn.decide.notes.settings import NotesSettings
from everturn.errors import SessionLocked, StoreError, UsageError
from everturn.history.blocks import Block, fields_of, text_of
from everturn.history.edits import Compacted, Pinned, Undone
from everturn.measure.capabilities import ANTHROPIC
from everturn.session.hooks.run import CallbackHook, Hooks
from everturn.session.note_taker import NoteTaker
from everturn.session.pin_file import append_pin, pin_file_path
from everturn.session.tools import ToolResult
from everturn.session.upstream import RawResponse, UpstreamError
from everturn.twin.testing import TwinForTests
from everturn.twin.upstream import make_twin_send
from everturn.view.fragments.notes import SECTIONS
from everturn.view.system_prompt import SystemPromptSections

# Longer than the shortest prefix that is cached.
RULES = "Read a file before you change it, and say honestly what the tests have shown. " * 220
MODEL = "claude-haiku-4-5"
SUMMARY = "<summary>1. The login test was fixed in auth.py by waiting for the token; all is done.</summary>"


def schema(*fields: str) -> dict[str, Any]:
    return {"type": "object", "properties": {name: {"type": "string"} for name in fields}}


def tool(name: str, run: Callable[..., Any] | None = None, *fields: str) -> Tool:
    return Tool({"name": name, "description": f"{name}s.", "input_schema": schema(*fields)}, run)


def call(name: str, **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "name": name, "input": given}


class Desk:
    """A folder with a session, the twin that answers it, and what was heard."""

    def __init__(self, folder: Path, twin: TwinForTests) -> None:
        self.folder, self.twin = folder, twin
        self.path = folder / "session.jsonl"
        self.heard: list[Event] = []
        self.ids = count(1)

    def open(self, **how: Any) -> Session:
        how = {"send": make_twin_send(self.twin.twin), **how} if "client" not in how else how
        defaults: dict[str, Any] = {
            "model": MODEL,
            "system": RULES,
            "clock": self.twin.twin.clock.now,
            "new_id": lambda: f"{next(self.ids):08d}",
            "listen": self.heard.append,
            "store.fsync": "never",
        }
        return Session.open(self.path, **{**defaults, **how})

    def talk(self, session: Session, turns: int = 3, words: int = 60) -> None:
        for turn in range(turns):
            self.twin.script(f"Answer {turn}: " + "as far as the results show. " * words)
            session.send(f"Question {turn} about the login test. " + "Look closely. " * words)

    def events(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.heard if isinstance(event, kind)]


@pytest.fixture
def desk(tmp_path: Path, twin: TwinForTests) -> Desk:
    return Desk(tmp_path, twin)


def words_in_view(session: Session) -> str:
    safe = session.conversation._tracker.flattener.flat()
    return "\n".join(text_of(block) for message in safe.messages for block in message.blocks)


def results_in(session: Session) -> list[Block]:
    blocks = (block for each in session.conversation.log.records for block in each.blocks)
    return [block for block in blocks if block.is_result]


# ── talking ──────────────────────────────────────────────────────────────────────────────────────


def test_a_question_is_answered_and_kept(desk):
    desk.twin.script("Forty-two.")
    with desk.open() as session:
        reply = session.send("How many?")
        assert (reply.text, reply.calls, reply.stopped) == ("Forty-two.", (), "")
        assert reply.usage.context > 4_000
    with desk.open() as session:
        assert [record.kind for record in session.conversation.log.records] == ["user", "assistant"]
        assert "Forty-two." in words_in_view(session)


def test_a_reply_is_printed_as_its_text(desk):
    desk.twin.script("Forty-two.")
    with desk.open() as session:
        reply = session.send("How many?")
    assert (str(reply), f"{reply}") == ("Forty-two.", "Forty-two.")


def test_the_official_client_is_enough(desk):
    desk.twin.script("Yes.", "And yes.")
    with desk.open(client=desk.twin.client()) as session:
        assert [session.send("Really?").text, session.send("Still?").text] == ["Yes.", "And yes."]
    assert desk.twin.ledger[-1]["usage"]["cache_read_input_tokens"] > 4_000


@pytest.fixture
def no_key(monkeypatch, tmp_path):
    """The SDK looks for a key in variables and in the user's folder."""
    for name in [name for name in os.environ if name.startswith("ANTHROPIC_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)


@pytest.mark.usefixtures("no_key")
@pytest.mark.parametrize("act", [lambda session: session.send("Yes?"), lambda s: list(s.stream("Yes?"))])
@pytest.mark.parametrize("client", [lambda: None, anthropic.Anthropic], ids=["own", "given"])
def test_without_a_key_a_message_is_refused_with_what_to_do_and_kept(desk, act, client):
    says = "No API key found. Set ANTHROPIC_API_KEY, or pass `client=`"
    with (
        desk.open(client=client(), clock=lambda: datetime.now(UTC)) as session,
        pytest.raises(UsageError, match=re.escape(says)),
    ):
        act(session)
    desk.twin.script("Yes.")
    with desk.open() as session:
        assert session.send().text == "Yes."


@pytest.mark.usefixtures("no_key")
def test_without_a_key_an_async_session_says_so_too(tmp_path):
    async def talk() -> None:
        async with await AsyncSession.open(tmp_path / "s.jsonl", config=None) as session:
            with pytest.raises(UsageError, match="Set ANTHROPIC_API_KEY"):
                await session.send("Yes?")
            with pytest.raises(UsageError, match="Set ANTHROPIC_API_KEY"):
                async for _ in session.stream("Yes?"):
                    pass

    asyncio.run(talk())


@pytest.mark.spec("BY-4")
def test_recall_says_of_an_undone_compaction_that_its_summary_is_aside_and_the_rest_visible(desk):
    with desk.open(compact={"strategies": ["direct"]}) as session:
        desk.talk(session)
        desk.twin.script(SUMMARY)
        assert isinstance(session.compact(), Compaction)
        assert {(hit.source, hit.state) for hit in session.recall("login")} == {
            ("user", "summarized"),
            ("summary", "visible"),
        }
        assert isinstance(session.undo(), Undone)
        expected = {("user", "visible"), ("summary", "aside")}
        assert {(hit.source, hit.state) for hit in session.recall("login")} == expected
    with desk.open() as session:
        assert {(hit.source, hit.state) for hit in session.recall("login")} == expected


def test_tools_are_run_until_the_model_stops_calling(desk):
    asked: list[dict[str, Any]] = []

    def read(given: dict[str, Any]) -> str:
        asked.append(dict(given))
        return "token = wait()"

    desk.twin.script(
        {"content": [call("read", path="auth.py"), call("read", path="token.py")]},
        {"content": [call("read", path="test.py")]},
        "It waits now.",
    )
    with desk.open(tools=[tool("read", read, "path")]) as session:
        assert session.send("Fix it.").text == "It waits now."
    assert asked == [{"path": "auth.py"}, {"path": "token.py"}, {"path": "test.py"}]


def test_whatever_a_tool_does_wrong_is_told_to_the_model(desk):
    def broken(given: dict[str, Any]) -> str:
        raise FileNotFoundError("auth.py is gone")

    desk.twin.script({"content": [call("read", path="auth.py"), call("write", path="x")]}, "I see.")
    with desk.open(tools=[tool("read", broken, "path")]) as session:
        assert session.send("Fix it.").text == "I see."
        results = results_in(session)
    assert [(text_of(each), b'"is_error":true' in each.raw) for each in results] == [
        ("FileNotFoundError: auth.py is gone", True),
        ("No tool named 'write' is available.", True),
    ]


def test_a_tool_without_a_function_is_the_callers(desk):
    desk.twin.script({"content": [call("ask_user", question="Which?")]}, "Thanks.")
    with desk.open(tools=[tool("ask_user", None, "question")]) as session:
        reply = session.send("Fix it.")
        assert [(each.tool, each.input) for each in reply.calls] == [("ask_user", {"question": "Which?"})]
        assert session.send([ToolResult(reply.calls[0].id, "The second.")]).text == "Thanks."


def test_a_tool_loop_without_end_is_ended(desk):
    desk.twin.script(*({"content": [call("read", path="a")]} for _ in range(3)))
    with desk.open(tools=[tool("read", lambda given: "again", "path")]) as session:
        reply = session.send("Fix it.", rounds=2)
        assert (reply.stopped, len(reply.calls)) == ("tools were called 2 times in a row", 1)


def test_an_interrupted_tool_leaves_no_call_without_its_answer(desk):
    def interrupted(given: dict[str, Any]) -> str:
        raise KeyboardInterrupt

    desk.twin.script({"content": [call("read", path="a"), call("read", path="b")]}, "Good.")
    with desk.open(tools=[tool("read", interrupted, "path")]) as session:
        with pytest.raises(KeyboardInterrupt):
            session.send("Fix it.")
        assert session.send("Go on, without reading.").text == "Good."
        results = results_in(session)
        assert [text_of(each)[:11] for each in results] == ["Interrupted", "Interrupted"]


def test_text_comes_piece_by_piece_through_the_sdk_and_whole_without_it(desk):
    said = "One sentence that is long enough to be sent in several pieces, one after the other."
    desk.twin.script(said, said)
    with desk.open(client=desk.twin.client()) as session:
        pieces = list(session.stream("Tell me."))
        assert len(pieces) > 1
        assert "".join(pieces) == said
    with desk.open() as session:
        assert list(session.stream("Again.")) == [said]
        assert words_in_view(session).count(said) == 2


def test_a_provider_that_refuses_is_raised_and_what_was_said_stays_said(desk):
    desk.twin.faults("server_error")
    with desk.open() as session:
        with pytest.raises(UpstreamError):
            session.send("Hello?")
        desk.twin.script("Hello.")
        assert session.send().text == "Hello."
    assert desk.path.read_bytes().count(b"Hello?") == 1


def test_nothing_said_after_an_answer_is_told_in_words_where_a_model_cannot_go_on_from_it(desk):
    desk.twin.script("Hello.", "Hello.", " And more.")
    with desk.open(model="claude-opus-5") as session:
        session.send("Hello?")
        with pytest.raises(UsageError, match="already answered"):
            session.send()
        assert len(desk.twin.ledger) == 1
    with desk.open(model="claude-haiku-4-5") as session:
        session.send("Hello again?")
        assert session.send().text.strip() == "And more."


@pytest.mark.spec("TOK-6")
def test_the_size_knows_of_the_system_prompt_before_anything_was_reported(desk):
    desk.twin.script("Hello.")
    with desk.open(system="Be terse. " * 9_000) as session:
        session._runtime.runner.say("Hello?")
        estimated = session.context().size
        reported = session.send().usage.context
    assert estimated.basis == "estimate"
    assert reported < estimated.tokens < 2 * reported


def test_nothing_said_in_an_empty_session_is_told_in_words(desk):
    with desk.open() as session, pytest.raises(UsageError, match="send a message first"):
        session.send()


@pytest.mark.parametrize("model", [MODEL, "claude-opus-5"])
@pytest.mark.parametrize("act", ["pin", "rewind"])
def test_a_session_without_a_message_left_has_no_messages_yet(desk, act, model):
    with desk.open(model=model) as session:
        if act == "pin":
            session.pin("Never push to main.")
        else:
            session.send("Hello?")
            session.rewind(session.conversation.log.records[0].uuid)
        for go_on in (session.send, lambda: list(session.stream())):
            with pytest.raises(UsageError) as refused:
                go_on()
            assert str(refused.value) == "This session has no messages yet; send a message first."


def test_a_reply_that_was_cut_off_behind_a_space_is_not_gone_on_with(desk):
    desk.twin.script({"content": "First half, and ", "stop_reason": "max_tokens"}, "the second half.")
    with desk.open() as session:
        session.send("Tell me a story.")
        with pytest.raises(UsageError) as refused:
            session.send()
        assert str(refused.value) == (
            "The last reply ends with white space, and the API does not go on from there; "
            'send a message such as "Go on."'
        )
        assert session.send("Go on.").text == "the second half."
    assert [each["status"] for each in desk.twin.ledger] == [200, 200]


@pytest.mark.parametrize("how", ["send", "stream"])
def test_a_tool_that_sends_in_its_own_session_is_refused(desk, how):
    opened: list[Session] = []

    def ask(given: dict[str, Any]) -> str:
        return opened[0].send("Inner.").text if how == "send" else "".join(opened[0].stream("Inner."))

    desk.twin.script({"content": [call("ask")]}, "I see.", "Yes.")
    with desk.open(tools=[tool("ask", ask)]) as session:
        opened.append(session)
        assert [session.send("Ask.").text, session.send("Still there?").text] == ["I see.", "Yes."]
        assert [text_of(each) for each in results_in(session)] == [
            "UsageError: A tool cannot send a message in the session that runs it: the model waits for its "
            "result. Return the text as the result, or open another session for it."
        ]


# ── compaction ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("CP-27", "TR-8")
def test_a_compaction_by_hand_works_at_any_size_and_reports_before_and_after(desk):
    with desk.open() as session:
        desk.talk(session)
        size = session.context().size.tokens
        before = desk.path.read_bytes()
        desk.twin.script(SUMMARY)
        outcome = session.compact("Keep the name of the file.")
        assert isinstance(outcome, Compaction)
        assert outcome.tokens_before == size > outcome.tokens_after
        assert "waiting for the token" in words_in_view(session)
        # Nothing before the boundary is gone from disk, and the model is told where it is.
        assert desk.path.read_bytes().startswith(before)
        assert str(desk.path) in words_in_view(session)
    assert [event.trigger for event in desk.events(CompactionDone)] == ["manual"]


def test_a_dry_run_says_what_would_happen_and_changes_nothing(desk):
    with desk.open() as session:
        desk.talk(session)
        before = desk.path.read_bytes()
        third = [each for each in session.conversation.log.records if each.kind == "user"][2]
        plan = session.dry_run(up_to=third.uuid)
        assert isinstance(plan, CompactionPlan)
        assert [record.kind for record in plan.kept] == ["user", "assistant"]
        assert session.dry_run(from_="nowhere") == CompactionSkipped(
            "The view has no record 'nowhere' to divide it at. Name one that the model can still see."
        )
        assert desk.path.read_bytes() == before
        with pytest.raises(UsageError, match="`from_` or `up_to`"):
            session.dry_run(from_="a", up_to="b")


def test_a_full_context_is_compacted_before_the_request_and_the_session_goes_on(desk):
    with desk.open(tools=[tool("Read", lambda given: "line of code\n" * 3_000, "file_path")]) as session:
        while not desk.events(CompactionDone):
            session.send("Read on.")
        session.send("And on.")
        context = session.context()
    assert [event.trigger for event in desk.events(CompactionDone)] == ["auto"]
    assert max(entry["usage"]["output_tokens"] for entry in desk.twin.ledger) > 0
    assert context.size.tokens < context.limits.auto
    assert {entry["status"] for entry in desk.twin.ledger} == {200}


@pytest.mark.spec("CP-7", "CP-28")
@pytest.mark.parametrize("how", ["by hand", "automatically"])
def test_an_interrupt_while_a_summary_is_written_changes_nothing(desk, how):
    interrupts: list[bool] = []
    inner = make_twin_send(desk.twin.twin)

    def send(body: bytes, betas: Any) -> RawResponse:
        # Once, and the summary comes first: whoever goes on after it is heard by the provider.
        if interrupts and interrupts.pop():
            raise KeyboardInterrupt
        return inner(body, betas)

    with desk.open(send=send, window=16_000, system="Be brief.") as session:
        desk.talk(session, turns=4, words=150)
        if how == "automatically":
            session._runtime.runner.say("One more. " * 3_000)
        before, view = desk.path.read_bytes(), words_in_view(session)
        interrupts.append(True)
        calls = len(desk.twin.ledger)
        if how == "by hand":
            outcome = session.compact()
            assert isinstance(outcome, CompactionFailed)
            assert "cancelled" in outcome.why
            assert [event.reason for event in desk.events(CompactionNotDone)] == ["cancelled"]
        else:
            with pytest.raises(KeyboardInterrupt):
                session.send()
        assert (desk.path.read_bytes(), words_in_view(session)) == (before, view)
        assert len(desk.twin.ledger) == calls


@pytest.mark.spec("CP-7")
def test_whoever_waits_for_a_summary_is_told_how_far_it_is(desk):
    ticks = threading.Event()
    inner = make_twin_send(desk.twin.twin)

    def slow(body: bytes, betas: Any) -> RawResponse:
        if b"summary" in body[-3_000:]:
            assert ticks.wait(10)
        return inner(body, betas)

    def listen(event: Event) -> None:
        desk.heard.append(event)
        if len(desk.events(Compacting)) == 2:
            ticks.set()

    with desk.open(send=slow, listen=listen) as session:
        session._runtime.handler._status_seconds = 0.01
        desk.talk(session, turns=2)
        desk.twin.script(SUMMARY)
        assert isinstance(session.compact(), Compaction)
    assert [event.way for event in desk.events(Compacting)][:2] == ["fork", "fork"]


@pytest.mark.spec("CP-28")
def test_a_compaction_by_hand_starts_from_the_size_that_was_shown_also_where_it_drops_thinking(desk):
    thought = {"type": "thinking", "thinking": "Let me see what it says. " * 200}
    with desk.open(model="claude-opus-4-6") as session:
        for turn in range(4):
            desk.twin.script({"content": [thought, {"type": "text", "text": f"Answer {turn}. " * 100}]})
            session.send("Question. " * 300)
        asked = [each for each in session.conversation.log.records if each.kind == "user"]
        desk.twin.script(SUMMARY, SUMMARY)
        assert isinstance(session.compact(up_to=asked[1].uuid), Compaction)
        # The cache is cold: thinking that was kept is left out from now on.
        desk.twin.advance(9_000)
        shown, planned = session.context().size.tokens, session.dry_run()
        made = session.compact()
        assert isinstance(planned, CompactionPlan)
        assert isinstance(made, Compaction)
        assert (planned.tokens_before, made.tokens_before) == (shown, shown)


def test_after_a_change_of_the_model_the_size_still_has_the_system_prompt_in_it(desk):
    for model in ("claude-opus-5", "claude-sonnet-5"):
        with desk.open(model=model, policy="claude-code") as session:
            desk.talk(session, turns=4, words=900)
            desk.twin.script(SUMMARY)
            found = session.compact()
            shown = session.context().size.tokens
            sent = session.send("Is it fixed?").usage.context
    assert isinstance(found, Compaction)
    assert shown == pytest.approx(sent, rel=0.4)


def test_a_provider_that_is_dead_costs_a_model_and_not_the_session(desk):
    with desk.open() as session:
        desk.talk(session, words=600)
        desk.twin.faults(*["server_error"] * 4)
        outcome = session.compact()
        assert isinstance(outcome, Compaction)
        assert [attempt.strategy for attempt in outcome.attempts] == ["notes", "fork", "direct", "extractive"]


@pytest.mark.spec("CP-30")
@pytest.mark.spec("CP-30", "TOK-5")
def test_the_size_after_an_undo_is_that_of_the_restored_view(desk):
    with desk.open() as session:
        desk.talk(session, 12)
        full = session.context().size.tokens
        desk.twin.script(SUMMARY)
        assert isinstance(session.compact(), Compaction)
        desk.twin.script("Still here.")
        session.send("And now?")
        small = session.context().size.tokens
        assert small < 0.6 * full
        assert isinstance(session.undo(), Undone)
        restored = session.context().size.tokens
        assert full < restored < 1.1 * full
    with desk.open() as session:
        assert session.context().size.tokens == restored
        desk.twin.script("Yes.")
        usage = session.send("Really?").usage
        assert session.context().size.reported == usage.total
        assert usage.context == pytest.approx(restored, rel=0.1)


def test_an_undo_brings_back_what_was_there_and_survives_a_restart(desk):
    with desk.open() as session:
        desk.talk(session)
        view = words_in_view(session)
        desk.twin.script(SUMMARY, "Still here.")
        session.compact()
        session.send("Are you there?")
        assert "Question 0" not in words_in_view(session)
        assert isinstance(session.undo(), Undone)
        undone = words_in_view(session)
        assert undone.startswith(view)
        assert "Still here." in undone
    with desk.open() as session:
        assert words_in_view(session) == undone
        assert isinstance(session.undo(), CompactionSkipped)


@pytest.mark.spec("CP-32")
def test_pins_survive_twenty_compactions_in_a_row(desk):
    with desk.open() as session:
        session.pin("Never push to main; use bun.")
        for number in range(20):
            desk.talk(session, turns=1)
            desk.twin.script(SUMMARY.replace("1.", f"{number}."))
            assert isinstance(session.compact(), Compaction)
            assert words_in_view(session).count("Never push to main; use bun.") == 1
    with desk.open() as session:
        assert "Never push to main; use bun." in words_in_view(session)
        kinds = [type(each.edit) for each in session.conversation.log.records if each.edit]
        assert (kinds.count(Pinned), kinds.count(Compacted)) == (1, 20)


def test_words_pinned_from_outside_are_taken_in_by_the_next_compaction_once(desk):
    with desk.open() as session:
        desk.talk(session)
        append_pin(session.path, "Keep the API stable.")
        for number in range(2):
            desk.twin.script(SUMMARY.replace("1.", f"{number}."))
            assert isinstance(session.compact(), Compaction)
            assert words_in_view(session).count("Keep the API stable.") == 1
            desk.talk(session, turns=1)
        pins = [each.edit for each in session.conversation.log.records if isinstance(each.edit, Pinned)]
    assert pins == [Pinned(label_agent_pin("Keep the API stable."), "pinned by the agent")]


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda kept: kept.replace(b"never", b"nev\xe9r"), id="a byte that is not UTF-8"),
        pytest.param(lambda kept: kept.replace(b'"never', b"Xnever"), id="the first byte of the line"),
        pytest.param(lambda kept: kept.replace(b'main"', b"mainX"), id="the last byte of the line"),
        pytest.param(lambda kept: kept.replace(b'main"\n', b'main"X'), id="its line break"),
    ],
)
def test_a_pin_from_outside_that_cannot_be_read_any_more_is_a_remark(desk, damage):
    with desk.open() as session:
        desk.talk(session)
        for text in ("never push to main", "the port is 8443"):
            append_pin(session.path, text)
        file = pin_file_path(session.path)
        # Not acknowledged, so not missed.
        file.write_bytes(damage(file.read_bytes()) + b'\n"cut off by a cra')
        desk.twin.script(SUMMARY)
        assert isinstance(session.compact(), Compaction)
        assert "the port is 8443" in words_in_view(session)
        assert "never push to main" not in words_in_view(session)
        assert session.remarks == [
            f"a pin is lost: line 2 of {file} cannot be read; pin the text again and remove what is damaged"
        ]


@pytest.mark.spec("CP-18")
def test_hooks_at_a_compaction_join_the_view(desk):
    def words(text: str) -> Any:
        return lambda payload: text

    hooks = Hooks(
        (
            CallbackHook("SessionStart", words("The branch is called harbor."), matcher="compact"),
            CallbackHook("PostCompact", words("The wiki was told.")),
        )
    )
    with desk.open(hooks=hooks) as session:
        desk.talk(session)
        desk.twin.script(SUMMARY)
        session.compact()
        shown = words_in_view(session)
    assert "The branch is called harbor." in shown
    assert "The wiki was told." in shown
    with desk.open() as session:
        assert words_in_view(session) == shown


def test_a_hook_that_fails_is_an_event_and_no_error(desk):
    def broken(payload: Any) -> str:
        raise OSError

    with desk.open(hooks=Hooks((CallbackHook("SessionStart", broken),))):
        pass
    assert [(event.hook, event.problems) for event in desk.events(HookTrouble)] == [("SessionStart", 1)]


@pytest.mark.spec("FLAT-5", "TR-11")
def test_an_input_is_sent_as_the_schema_of_its_tool_says_every_time_and_that_is_told(desk):
    schema = {"type": "object", "properties": {"path": {"type": "string"}, "limit": {"type": "integer"}}}
    read = Tool({"name": "read", "input_schema": schema}, lambda given: "text")
    bodies: list[dict[str, Any]] = []
    answer = make_twin_send(desk.twin.twin)

    def send(body: bytes, betas: Any) -> RawResponse:
        bodies.append(msgspec.json.decode(body))
        return answer(body, betas)

    desk.twin.script({"content": [call("read", path="a.py", limit="5")]}, "Done.", "Yes.", "And yes.")
    with desk.open(tools=[read], send=send) as session:
        session.send("Read it.")
        session.send("Really?")
    with desk.open(tools=[read], send=send) as session:
        session.send("Still?")
    sent = [
        [
            block["input"]
            for message in body["messages"]
            for block in message["content"]
            if block["type"] == "tool_use"
        ]
        for body in bodies
    ]
    assert sent == [[], *[[{"path": "a.py", "limit": 5}]] * 3]
    (kept,) = [
        block for record in session.conversation.log.records for block in record.blocks if block.is_call
    ]
    assert fields_of(kept)["input"] == {"path": "a.py", "limit": "5"}
    assert [(dict(event.kinds), event.details[0].partition(": ")[2]) for event in desk.events(Repaired)] == [
        ({"tool_input": 1}, "read: the input was converted by its schema")
    ] * 2
    # Every request after the first reads what the one before it wrote.
    assert [entry["usage"]["cache_read_input_tokens"] > 4_000 for entry in desk.twin.ledger] == [
        False, True, True, True,
    ]  # fmt: skip


SHARING = msgspec.structs.replace(ANTHROPIC, scopes=("org", "global"))


@pytest.mark.spec("PC-3")
@pytest.mark.parametrize(
    ("able", "tool", "shared"),
    [
        (ANTHROPIC, "read", {"type": "ephemeral"}),
        (SHARING, "read", {"type": "ephemeral", "scope": "global"}),
        (SHARING, "mcp__files__read", {"type": "ephemeral"}),
    ],
)
def test_attribution_and_identity_are_blocks_without_a_marker_before_the_shared_part(
    desk, able, tool, shared
):
    bodies: list[dict[str, Any]] = []
    answer = make_twin_send(desk.twin.twin)

    def send(body: bytes, betas: Any) -> RawResponse:
        bodies.append(msgspec.json.decode(body))
        # The public API, and so the twin, knows no scope.
        return answer(body.replace(b',"scope":"global"', b""), betas)

    sections = SystemPromptSections(attribution="client: tests", identity="You are an engineer.")
    sections.static("rules", lambda: RULES)
    sections.dynamic("branch", lambda: "The branch is main.")
    offered = Tool({"name": tool, "input_schema": {"type": "object"}}, lambda given: "text")
    desk.twin.script("Yes.")
    with desk.open(system=sections, tools=[offered], capabilities=able, send=send) as session:
        session.send("Really?")
    assert [(block["text"], block.get("cache_control")) for block in bodies[0]["system"]] == [
        ("client: tests", None),
        ("You are an engineer.", None),
        (RULES, shared),
        ("The branch is main.", {"type": "ephemeral"}),
    ]


@pytest.mark.spec("CP-19")
@pytest.mark.moves_cache_prefix(reason="the test's own section changes with the compaction")
@pytest.mark.parametrize(("source", "forgets"), [("main", True), ("agent:explore", False)])
def test_a_compaction_of_the_main_thread_computes_the_prompt_anew(desk, source, forgets):
    sections, branch = SystemPromptSections(), ["main"]
    sections.static("rules", lambda: RULES)
    sections.dynamic("branch", lambda: f"The branch is {branch[0]}.")
    with desk.open(system=sections, source=source) as session:
        desk.talk(session, turns=1)
        branch[0] = "harbor"
        desk.talk(session, turns=1)
        desk.twin.script(SUMMARY, "Fine.")
        session.compact()
        exchange = session.send("Go on.").exchange
    system = b"".join(block.raw for block in exchange.turn.captured.preamble.system)
    assert (b"The branch is harbor." in system) is forgets
    assert desk.events(CacheBroken) == []


# ── what was ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("BY-4")
def test_recall_finds_what_was_compacted_away(desk):
    with desk.open(recalls=True) as session:
        desk.twin.script("The port is 7431.")
        session.send("Which port did we choose for the xylophone service?")
        desk.talk(session)
        desk.twin.script(SUMMARY)
        assert isinstance(session.compact(), Compaction)
        assert "xylophone" not in words_in_view(session)
        hits = session.recall("xylophone")
        assert [(hit.source, hit.state) for hit in hits] == [("user", "summarized")]
        desk.twin.script({"content": [call("recall", query="port 7431")]}, "It is 7431.")
        assert session.send("Which port was it?").text == "It is 7431."
        assert "The port is «7431»" in words_in_view(session).replace("«port»", "port")


def test_the_bill_counts_summaries_and_survives_a_restart(desk):
    with desk.open() as session:
        desk.talk(session)
        desk.twin.script(SUMMARY)
        session.compact()
        bill = session.bill
    assert (bill.parts["conversation"].calls, bill.parts["compact"].calls) == (3, 1)
    paid = sum(entry["dollars"] for entry in desk.twin.ledger)
    assert float(bill.dollars) == pytest.approx(paid)
    with desk.open() as session:
        assert session.bill == bill


def test_a_resumed_session_knows_the_last_call_before_it(desk):
    with desk.open() as session:
        desk.talk(session)
    with desk.open() as session:
        desk.twin.script("Welcome back.")
        check = session.send("I am back.").exchange.settled.check
    assert check is not None
    assert check.predicted.read > 4_000
    assert (desk.folder / "session.jsonl.state.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.moves_cache_prefix(reason="the system prompt is another one on purpose")
def test_a_cache_break_is_an_event_and_a_file(desk):
    # Not Haiku, which is left out of break detection.
    with desk.open(model="claude-sonnet-4-5") as session:
        desk.talk(session)
    with desk.open(model="claude-sonnet-4-5", system=RULES.replace("honestly", "plainly")) as session:
        desk.talk(session, turns=1)
    (event,) = desk.events(CacheBroken)
    assert (event.cause, event.parts) == ("key_changed", ("system",))
    assert len(list((desk.folder / "session.jsonl.files").glob("cache-break-*.diff"))) == 1


def test_a_view_that_had_to_be_mended_is_told_once(desk):
    desk.twin.script({"content": [call("read", path="a")]})
    with desk.open(tools=[tool("read", None, "path")]) as session:
        session.send("Fix it.")
    with desk.open(tools=[tool("read", None, "path")]):
        pass
    assert [dict(event.kinds) for event in desk.events(Repaired)] == [{"missing_result": 1}]


# ── notes ────────────────────────────────────────────────────────────────────────────────────────

EDIT = tool("Edit", lambda given: "done", "file_path", "old_string", "new_string")
EAGER = NotesSettings(enabled=True, first=1_000, growth=500, tool_calls=1)


def noted(desk: Desk, text: str) -> dict[str, Any]:
    section = SECTIONS[1]
    old = f"{section.heading}\n{section.description}\n"
    path = f"{desk.path}.notes.md"
    return {"content": [call("Edit", file_path=path, old_string=old, new_string=f"{old}{text}\n")]}


def settled(session: Session) -> NoteTaker:
    notes = session._runtime.notes
    assert notes is not None
    notes.settle("a while")
    return notes


@pytest.mark.spec("SM-3")
def test_notes_are_taken_beside_the_conversation_and_are_the_next_summary(desk):
    with desk.open(tools=[EDIT], notes=EAGER) as session:
        desk.twin.script("The token is awaited now.", noted(desk, "The token is awaited in auth.py."))
        session.send("Fix the login test. " * 200)
        notes = settled(session)
        assert "The token is awaited in auth.py." in notes.notes.body
        assert "The token is awaited in auth.py." in Path(notes.path).read_text()
        (taken,) = desk.events(NotesTaken)
        assert taken.covers == session.conversation.log.records[0].uuid
        assert session.bill.parts["session_memory"].calls == 1
        fork = desk.twin.ledger[-1]["usage"]
        assert fork["cache_read_input_tokens"] > 10 * fork["input_tokens"]


@pytest.mark.spec("SM-3")
def test_a_fork_that_wants_anything_else_is_refused_and_not_asked_again_at_once(desk):
    other = {"content": [call("Edit", file_path="/etc/passwd", old_string="a", new_string="b")]}
    with desk.open(tools=[EDIT], notes=EAGER) as session:
        desk.twin.script("Done.", other)
        session.send("Fix the login test. " * 200)
        settled(session)
        desk.twin.script("Yes.")
        session.send("Really?")
        assert len(desk.events(NotesRejected)) == 1
        assert not Path(session.path + ".notes.md").exists()
    assert len(desk.twin.ledger) == 3


@pytest.mark.spec("SM-3")
def test_a_fork_that_hangs_blocks_no_turn_and_is_given_up(desk):
    now, hangs = [0.0], threading.Event()
    inner = make_twin_send(desk.twin.twin)

    def send(body: bytes, betas: Any) -> RawResponse:
        if b"Bring the notes of this session up to date" in body:
            hangs.wait(20)
            raise UpstreamError(0, "late", "nobody waits any more")
        return inner(body, betas)

    try:
        with desk.open(tools=[EDIT], notes=EAGER, send=send) as session:
            assert session._runtime.notes is not None
            session._runtime.notes._clock = lambda: now[0]
            desk.twin.script("Done.", "Yes.", "Still.")
            began = time.monotonic()
            session.send("Fix the login test. " * 200)
            assert session._runtime.notes._job is not None
            session.send("Really?")
            now[0] = 61.0
            session.send("And now?")
            assert time.monotonic() - began < 10
        assert [event.why for event in desk.events(NotesRejected)] == ["no answer after 60 s; abandoned"]
    finally:
        hangs.set()


# ── disks, processes, threads ────────────────────────────────────────────────────────────────────


@pytest.mark.spec("CP-28")
def test_a_compaction_that_was_cut_off_leaves_the_old_view_or_the_new_one(desk):
    with desk.open() as session:
        desk.talk(session)
        old = words_in_view(session)
        before = len(desk.path.read_bytes())
        desk.twin.script(SUMMARY)
        session.compact()
        new = words_in_view(session)
    whole = desk.path.read_bytes()
    seen = set()
    for cut in sorted({*range(before, len(whole), 211), len(whole) - 1, len(whole)}):
        desk.path.write_bytes(whole[:cut])
        with desk.open() as session:
            seen.add(words_in_view(session))
    assert seen == {old, new}


@pytest.mark.spec("CP-28")
def test_a_process_that_is_killed_while_a_summary_is_written_leaves_the_old_view(desk):
    with desk.open() as session:
        desk.talk(session)
        old = words_in_view(session)
    script = f"""
import os
from everturn import Session
def die(body, betas):
    os.kill(os.getpid(), 9)
Session.open({str(desk.path)!r}, model={MODEL!r}, send=die).compact()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == -9
    with desk.open() as session:
        assert words_in_view(session) == old


def test_two_processes_on_one_session_are_told_apart(desk):
    with desk.open():
        script = f"from everturn import Session\nSession.open({str(desk.path)!r}, send=print)"
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        assert "SessionLocked" in done.stderr
        assert "is being written by process" in done.stderr
        with pytest.raises(SessionLocked):
            desk.open()
    with desk.open() as session:
        assert session.remarks == []


def test_a_session_that_is_only_read_is_left_as_it_is(desk):
    with desk.open() as session:
        desk.talk(session, turns=1)
    before = {path.name: path.read_bytes() for path in desk.folder.iterdir()}
    with desk.open(), desk.open(access="read") as reader:
        assert reader.context().size.tokens > 4_000
        with pytest.raises(StoreError, match="opened for reading only"):
            reader.send("Hello?")
    assert {path.name: path.read_bytes() for path in desk.folder.iterdir()} == before


def test_a_disk_that_is_full_is_one_sentence_and_the_reply_is_not_acknowledged(desk, monkeypatch):
    with desk.open() as session:
        desk.talk(session, turns=1)

        def full(fd: int, data: bytes) -> int:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(session._runtime.store._io, "write", full, raising=False)
        with pytest.raises(StoreError, match="Free some disk space"):
            session.send("Hello?")
        with pytest.raises(StoreError, match="Nothing can be appended"):
            session.send("Hello?")
    assert len(desk.twin.ledger) == 1


def test_what_cannot_be_written_beside_the_transcript_is_a_remark(desk):
    (desk.folder / "session.jsonl.state.json").mkdir()
    with desk.open() as session:
        desk.talk(session, turns=2)
        assert len(session.remarks) == 1
        assert "could not be written" in session.remarks[0]


def test_the_same_surface_with_awaits(desk):
    async def talk() -> tuple[Any, ...]:
        desk.twin.script("One.", "Two.", "Three.", SUMMARY)
        how = {
            "model": MODEL,
            "system": RULES,
            "send": make_twin_send(desk.twin.twin),
            "store.fsync": "never",
        }
        async with await everturn.AsyncSession.open(desk.path, **how) as session:
            both = await asyncio.gather(session.send("First? " * 200), session.send("Second?"))
            pieces = [piece async for piece in session.stream("Third?")]
            outcome = await session.compact()
            undone = await session.undo()
            hits = await session.recall("Second")
            return [reply.text for reply in both], pieces, type(outcome), type(undone), len(hits)

    assert asyncio.run(talk()) == (["One.", "Two."], ["Three."], Compaction, Undone, 1)


def test_a_closed_session_with_awaits_takes_nothing_more_in_the_same_words(desk):
    async def talk() -> tuple[str, ...]:
        session = await everturn.AsyncSession.open(
            desk.path, send=make_twin_send(desk.twin.twin), model=MODEL
        )
        await session.send("Hello?")
        await session.close()
        await session.close()
        with pytest.raises(StoreError) as sent:
            await session.send("Still there?")
        with pytest.raises(StoreError) as streamed:
            assert [piece async for piece in session.stream("Still there?")]
        return str(sent.value), str(streamed.value)

    said = f"Nothing can be appended to {desk.path}: it was closed."
    assert asyncio.run(talk()) == (said, said)


@pytest.mark.spec("TL-2")
def test_a_listener_that_raises_is_reported_once_and_ends_nothing(desk, caplog):
    heard: list[str] = []

    def listen(event: Event) -> None:
        heard.append(type(event).__name__)
        raise RuntimeError("the window is gone")

    with desk.open(listen=listen) as session:
        desk.talk(session, 4, 120)
        desk.twin.script(SUMMARY)
        assert isinstance(session.compact(), Compaction)
        desk.twin.script("Still here.")
        assert session.send("And now?").text == "Still here."
        said = "the callable given as `listen` raised RuntimeError; the turn goes on without it"
        assert session.remarks == [said]
    assert heard[:2] == ["Compacting", "CompactionDone"]
    assert [record.getMessage() for record in caplog.records] == [f"everturn: {said}"]


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ({"client": object(), "send": print}, "either `client` or `send`"),
        ({"policy": "wasteful"}, "policy = 'wasteful', allowed is one of claude-code, "),
        ({"tools": [Tool({"description": "?"})]}, "A tool needs a name"),
        ({"tools": [tool("a"), tool("a")]}, "Two tools are named 'a'"),
    ],
)
def test_a_session_that_makes_no_sense_is_refused_in_words(desk, how, says):
    with pytest.raises(UsageError, match=says):
        desk.open(**how)
    assert not (desk.folder / "session.jsonl.lock").exists()


def test_a_closed_session_takes_nothing_more(desk):
    session = desk.open()
    session.close()
    session.close()
    with pytest.raises(StoreError, match="it was closed"):
        session.send("Hello?")


def test_a_hook_at_the_end_is_told_why(desk):
    told: list[Any] = []
    hooks = Hooks((CallbackHook("SessionEnd", lambda payload: told.append(dict(payload))),))
    with desk.open(hooks=hooks):
        assert hooks.of(RunHooks("SessionEnd", {"reason": "other"}))
    assert [(each["reason"], each["transcript_path"]) for each in told] == [("other", str(desk.path))]


def test_a_reader_pays_for_no_summary(desk):
    """Its records could not be kept, and what it shows would not be what the file has."""
    with desk.open() as session:
        session.send("Hello. " * 400)
    with desk.open(access="read") as reader:
        calls, before = len(desk.twin.ledger), reader.context().size
        with pytest.raises(StoreError, match="opened for reading only"):
            reader.compact()
        assert (len(desk.twin.ledger), reader.context().size) == (calls, before)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"access": "r"}, "access is 'r', and takes 'write', 'read'."),
        ({"session_start": "new"}, "session_start is 'new', and takes 'auto', 'clear', 'none'."),
    ],
)
def test_a_word_that_an_argument_does_not_take_is_refused_before_a_file_is_made(desk, given, said):
    with pytest.raises(UsageError, match=f"^{re.escape(said)}$"):
        desk.open(**given)
    assert not desk.path.exists()


def test_a_hook_event_that_does_not_exist_is_refused_with_those_that_do(desk):
    with desk.open() as session, pytest.raises(UsageError) as caught:
        session.run_hooks("SessionStarts")
    assert str(caught.value).startswith("There is no hook event 'SessionStarts'. There are: PreCompact, ")
