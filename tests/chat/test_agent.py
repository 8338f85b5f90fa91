"""One conversation: what is shown of a turn, what reaches the model, and what an interrupt leaves behind."""

import os
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import msgspec
import pytest

from everturn.chat.model_connection import ModelConnection, connect_to_model
from everturn.chat.start import scale_reserves
from everturn.chat.system_prompt import MAX_UNFINISHED_CHARACTERS, describe_interrupted_answer, format_memory
from everturn.decide.options import Options, ProviderSettings
from everturn.history.blocks import text_of
from everturn.history.records import Record
from everturn.session.memory_files.discovery import find_memory
from everturn.session.recorded import open_session

from .conftest import SUMMARY, Desk


def said_to_model(path: Path) -> list[str]:
    """The texts of the user's side, as the file has them."""
    records = open_session(path).thread.records
    return [text_of(block) for each in records if each.kind == "user" for block in each.blocks]


def records(path: Path) -> tuple[Record, ...]:
    return open_session(path).thread.records


def test_a_turn_shows_its_words_and_a_line_for_each_call(desk: Desk):
    desk.twin.script(
        {
            "content": [
                {"type": "text", "text": "Let me look."},
                {"type": "tool_use", "name": "Read", "input": {"file_path": "app.py"}},
            ]
        },
        "It returns None.",
    )
    reply = desk.agent().answer("Why does the login fail?")
    assert reply.text == "It returns None."
    assert desk.paper.lines == ["Let me look.", "● Read app.py  2 lines", "It returns None."]


def test_a_list_is_shown_when_it_changes_and_only_then(desk: Desk):
    todos = [{"content": "Look", "status": "in_progress"}]
    desk.twin.script(desk.call("TodoWrite", todos=todos), desk.call("TodoWrite", todos=todos), "Done.")
    desk.agent().answer("Plan it.")
    assert desk.paper.text.count("▸ Look") == 1


def test_a_wish_that_is_refused_changes_nothing_and_is_told_to_the_model(desk: Desk):
    desk.answer = "no"
    desk.twin.script(desk.call("Write", file_path="new.py", content="x = 1\n"), "Then not.")
    desk.agent().answer("Write new.py.")
    assert not (desk.project / "new.py").exists()
    assert [request.tool for request in desk.requests] == ["Write"]
    (result,) = [each for each in said_to_model(desk.path) if "said no" in each]
    assert "new.py" in result


def test_the_model_can_recall_what_was_said(desk: Desk):
    desk.twin.script("Noted.", desk.call("recall", query="pineapple"), "You said pineapple.")
    agent = desk.agent()
    agent.answer("The word is pineapple.")
    agent.answer("Which word was it?")
    assert "● recall pineapple" in desk.paper.text
    (found,) = [each for each in said_to_model(desk.path) if "record" in each]
    assert "pineapple" in found


@pytest.mark.moves_cache_prefix(reason="a compaction, and memory files that changed before it")
def test_memory_files_are_in_the_prompt_and_read_again_after_a_compaction(desk: Desk):
    (desk.project / "CLAUDE.md").write_text("Never push to main.")
    desk.twin.script("Yes.", SUMMARY, "Yes again.")
    agent = desk.agent()
    agent.answer("Look around. " * 900)
    head = agent.session.conversation.setting.preamble
    assert "Never push to main." in text_of(head.system[-1])
    (desk.project / "CLAUDE.md").write_text("Always run the tests.")
    agent.session.compact()
    agent.answer("Go on.")
    head = agent.session.conversation.setting.preamble
    assert "Always run the tests." in text_of(head.system[-1])
    assert "Never push to main." not in text_of(head.system[-1])


@pytest.mark.moves_cache_prefix(reason="a compaction is made by hand")
def test_instructions_of_a_folder_come_with_its_first_file_and_again_after_a_compaction(desk: Desk):
    (desk.project / "inner").mkdir()
    (desk.project / "inner" / "AGENTS.md").write_text("Tabs, not spaces.")
    (desk.project / "inner" / "a.py").write_text("x = 1\n")
    reads = desk.call("Read", file_path="inner/a.py")
    desk.twin.script(reads, reads, "Read. " * 100, SUMMARY, reads, "Read again.")
    agent = desk.agent()
    agent.answer("Look at it. " * 100)
    assert b"".join(desk.path.read_bytes().splitlines()).count(b"Tabs, not spaces.") == 1
    agent.session.compact()
    agent.answer("Look again.")
    assert sum("Tabs, not spaces." in each for each in said_to_model(desk.path)) == 2


@pytest.mark.moves_cache_prefix(reason="a compaction is made by hand")
def test_a_compaction_is_told_with_its_receipt(desk: Desk):
    desk.twin.script("Yes. " * 100, SUMMARY, "Yes again.")
    agent = desk.agent()
    agent.session.pin("Never push to main.")
    agent.answer("Look around. " * 100)
    agent.session.compact()
    agent.answer("Go on.")
    shown = desk.paper.lines
    at = next(number for number, line in enumerate(shown) if line.startswith("Compacted: "))
    assert " → " in shown[at]
    assert [line.split()[0] for line in shown[at + 1 : at + 4]] == ["summary", "kept", "recallable"]
    assert "1 instruction of the user verbatim" in shown[at + 2]
    assert shown[-1] == "Yes again."


def test_a_search_is_a_conversation_of_its_own_and_its_calls_are_deeper(desk: Desk):
    desk.twin.script(
        desk.call("Task", description="find login", prompt="Where is login?"),
        desk.call("Grep", pattern="login"),
        "It is in app.py:1.",
        "app.py, line 1.",
    )
    agent = desk.agent()
    agent.answer("Find it.")
    deeper, task, last = desk.paper.lines
    assert deeper.startswith("  ● Grep login")
    assert task == "● Task find login  It is in app.py:1."
    assert last == "app.py, line 1."
    assert agent.searcher.spent.calls == 2
    assert agent.figures(datetime.now(UTC)).dollars > agent.session.bill.dollars > Decimal(0)


# ── interrupts ───────────────────────────────────────────────────────────────────────────────────


def test_an_answer_that_is_stopped_leaves_its_words_for_the_next_one(desk: Desk, monkeypatch):
    desk.twin.script("The cause is the token.", "As I said.")
    agent = desk.agent()

    def stops(piece: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(desk.paper, "stream", stops)
    with pytest.raises(KeyboardInterrupt):
        agent.answer("Why does it fail?")
    agent.handle_interrupt()
    monkeypatch.undo()
    agent.answer("And how do I fix it?")
    assert said_to_model(desk.path) == [
        "Why does it fail?",
        describe_interrupted_answer("The cause is the token."),
        "And how do I fix it?",
    ]


def test_a_tool_that_is_stopped_has_its_call_answered(desk: Desk, monkeypatch):
    def stops(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("everturn.chat.tools.bash.run_shell_command", stops)
    desk.twin.script(desk.call("Bash", command="sleep 60"), "All right.")
    agent = desk.agent("all")
    with pytest.raises(KeyboardInterrupt):
        agent.answer("Wait a minute.")
    agent.handle_interrupt()
    assert desk.paper.lines == ["● Bash sleep 60  stopped"]
    *_, result = records(desk.path)
    assert text_of(result.blocks[0]) == "Interrupted by the user before it was done."
    assert agent.answer("Never mind.").text == "All right."
    assert "stopped your last answer" not in "".join(said_to_model(desk.path))


def test_an_unfinished_answer_is_told_by_its_end():
    assert describe_interrupted_answer("  ") == "[The user stopped your last answer before it began.]"
    long = describe_interrupted_answer("a" * MAX_UNFINISHED_CHARACTERS + "the end")
    assert long.endswith("the end")
    assert len(long) < MAX_UNFINISHED_CHARACTERS + 100


# ── the file ─────────────────────────────────────────────────────────────────────────────────────


def test_a_conversation_in_which_nothing_was_said_leaves_no_file(desk: Desk):
    agent = desk.agent()
    assert desk.path.exists()
    agent.close()
    assert not desk.path.exists()


def test_a_conversation_is_continued_where_it_was(desk: Desk):
    desk.twin.script("It returns None.")
    first = desk.agent()
    first.answer("Why does\nthe login fail?")
    first.close()
    second = desk.agent()
    head, *rest = [line.plain for line in second.format_greeting()]
    assert head.startswith("Resuming one: 2 messages, about ")
    assert rest == ["  you Why does the login fail?", "  it  It returns None."]


def test_a_call_that_a_crash_left_open_is_answered_and_told_of(desk: Desk):
    desk.twin.script(desk.call("Read", file_path="app.py"), "Good.", "Fine.")
    first = desk.agent()
    first.answer("Look.")
    first.close()
    lines = desk.path.read_bytes().splitlines(keepends=True)
    # Up to the call: what a kill -9 in the middle of the tool leaves behind.
    (last,) = [at for at, line in enumerate(lines) if b'"tool_use"' in line]
    desk.path.write_bytes(b"".join(lines[: last + 1]))
    second = desk.agent()
    assert "Repaired the end of the last run: 1 open call got a result." in desk.paper.text
    greeting = [line.plain for line in second.format_greeting()]
    assert "The last turn is not complete: /retry continues it." in greeting
    # A file cut by hand is shorter than its state says, and that is told too.
    assert "its state was written" in greeting[-1]
    assert second.answer("Go on.").text == "Fine."


def test_folders_and_files_are_their_owners_alone(desk: Desk):
    desk.agent()
    assert desk.path.stat().st_mode & 0o777 == 0o600
    assert desk.path.parent.stat().st_mode & 0o777 == 0o700


# ── figures ──────────────────────────────────────────────────────────────────────────────────────


def test_the_cache_is_warm_for_as_long_as_the_provider_keeps_it(desk: Desk):
    desk.twin.script("Yes.")
    agent = desk.agent()
    now = datetime.now(UTC)
    assert agent.figures(now).cache_seconds_left is None
    agent.answer("Are you there?")
    warm = agent.figures(now).cache_seconds_left
    assert warm is not None
    assert 299 < warm < 302
    assert agent.figures(now + timedelta(minutes=6)).cache_seconds_left is None


def test_figures_are_those_of_the_session(desk: Desk):
    desk.twin.script("Yes.", "No.")
    agent = desk.agent()
    agent.answer("Are you there?")
    agent.answer("Still?")
    context, spent = agent.session.context(), agent.session.bill.parts["conversation"]
    seen = spent.read + spent.written + spent.input
    assert msgspec.structs.replace(
        agent.figures(datetime.now(UTC)), cache_seconds_left=None
    ) == msgspec.structs.replace(
        agent.figures(datetime.now(UTC)),
        used_share=context.size.tokens / context.window,
        hit_rate=spent.read / seen,
        dollars=agent.session.bill.dollars,
        model="claude-haiku-4-5",
        cache_seconds_left=None,
    )


def test_memory_of_a_project_is_a_section_of_the_prompt(desk: Desk):
    assert format_memory(find_memory(desk.project, desk.home)) == ""
    (desk.project / "AGENTS.md").write_text("Be brief.")
    assert "Be brief." in format_memory(find_memory(desk.project, desk.home))


def test_text_is_shown_as_it_comes_through_the_sdk(desk: Desk, monkeypatch: pytest.MonkeyPatch):
    desk.twin.script("The cause is the token, which nobody waits for. " * 20)
    pieces: list[str] = []
    monkeypatch.setattr(desk.paper, "stream", pieces.append)
    reply = desk.agent(connection=ModelConnection(client=desk.twin.client())).answer("Why?")
    assert len(pieces) > 5
    assert "".join(pieces) == reply.text


@pytest.mark.moves_cache_prefix(reason="a compaction in the middle of a task")
def test_the_twin_reads_every_file_once_though_a_compaction_comes_in_between(desk: Desk):
    names = [f"part{number:02}.py" for number in range(15)]
    for name in names:
        body = (f"def f{number}(value):\n    return take(value, {number})\n" for number in range(60))
        (desk.project / name).write_text("\n".join(body))
    # Glob lists the newest first, and the order decides when the window is full. File times are coarse,
    # so that files written within one tick come in another order.
    for seconds, name in enumerate(("app.py", *names), 1_000_000_000):
        os.utime(desk.project / name, (seconds, seconds))
    thresholds = scale_reserves(Options(window=32_000)).thresholds
    twin = connect_to_model(ProviderSettings(), "twin")
    agent = desk.agent(connection=twin, model="claude-opus-5", window=32_000, thresholds=thresholds)
    said = agent.answer("Read all files").text
    lines = desk.paper.lines
    (compacted,) = (at for at, line in enumerate(lines) if "Compacted: " in line)
    read = {at: line.split()[2] for at, line in enumerate(lines) if line.startswith("● Read ")}
    assert sorted(read.values()) == ["app.py", *names]
    # 15 or 16: ids are made by chance, and their tokens decide when the threshold is reached.
    before = sum(at < compacted for at in read)
    assert said.startswith(f"I read 16 files, {before} of them before the summary; ")
