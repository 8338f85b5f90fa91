"""The slash commands: each does its thing, and none of them reaches the model."""

import re
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from everturn.chat.agent import ChatAgent
from everturn.chat.commands import COMMANDS, run_slash_command
from everturn.chat.screen.input import SlashCommand, parse_input
from everturn.chat.screen.status import format_dollars
from everturn.decide.economy.settings import EconomySettings
from everturn.errors import NotASession, UsageError
from everturn.session.recorded import open_session
from everturn.session.upstream import UpstreamError

from .conftest import SUMMARY, Desk


def run(agent: ChatAgent, typed: str) -> list[str]:
    command = parse_input(typed)
    assert isinstance(command, SlashCommand)
    return [line.plain for line in run_slash_command(agent, command)]


def begun(desk: Desk, *script: str) -> ChatAgent:
    desk.twin.script("It returns None. " * 30, *script)
    agent = desk.agent()
    agent.answer("Why does the login fail? " * 30)
    return agent


def test_help_names_every_command(desk: Desk):
    lines = run(desk.agent(), "/help")
    assert [line.split()[0] for line in lines] == [f"/{name}" for name in COMMANDS]


def test_every_command_is_in_the_manual():
    page = (Path(__file__).parents[2] / "docs" / "chat.md").read_text(encoding="utf-8")
    assert [name for name in COMMANDS if f"`/{name}" not in page] == []


def test_a_command_that_does_not_exist_suggests_one_that_does(desk: Desk):
    agent = desk.agent()
    with pytest.raises(UsageError, match=r"Unknown command /contxt\. Did you mean /context\?"):
        run(agent, "/contxt")
    with pytest.raises(UsageError, match=r"/help lists all commands"):
        run(agent, "/zzz")


@pytest.mark.parametrize(
    "typed",
    [
        "/help",
        "/context",
        "/cost",
        "/compact --dry-run",
        "/recall login",
        "/resume",
        "/permissions",
        "/model",
    ],
)
def test_looking_changes_nothing_and_reaches_nobody(desk: Desk, typed: str):
    agent = begun(desk)
    before, calls = desk.path.read_bytes(), len(desk.twin.ledger)
    assert run(agent, typed)
    assert (desk.path.read_bytes(), len(desk.twin.ledger)) == (before, calls)


def test_context_is_the_picture_that_the_command_line_draws(desk: Desk):
    lines = run(begun(desk), "/context")
    assert any(re.search(r"\d+ of 200,000 tokens", line) for line in lines)
    assert any("Free" in line for line in lines)


def test_cost_is_told_by_purpose(desk: Desk):
    assert run(desk.agent(), "/cost") == ["No calls yet."]
    desk.agents.pop().close()
    # Nothing was held or reset, so nothing is said about saving.
    head, conversation, total = run(begun(desk), "/cost")
    assert head.split() == ["for", "calls", "read", "written", "plain", "output", "dollars"]
    assert (conversation.split()[:2], total.split()[:2]) == (["conversation", "1"], ["all", "1"])


def told_everywhere(agent: ChatAgent) -> tuple[set[str], set[str]]:
    """The sizes and the prices that /context, /cost and the status line show."""
    drawn, bill = run(agent, "/context"), run(agent, "/cost")
    figures = agent.figures(datetime.now(UTC))
    found = next(found for line in drawn if (found := re.search(r"([\d,]+) of ([\d,]+) tokens", line)))
    size, window = (int(each.replace(",", "")) for each in found.groups())
    sizes = {str(size), str(round(figures.used_share * window))}
    totals = [line.split()[-1] for lines in (drawn, bill) for line in lines if line.startswith("all ")]
    return sizes, {*totals, format_dollars(figures.dollars)}


@pytest.mark.moves_cache_prefix(reason="a compaction is made by hand")
def test_context_cost_and_status_tell_one_size_and_one_price_also_after_a_resume(desk: Desk):
    desk.twin.script(
        desk.call("Task", prompt="Find it"), "It is in app.py.", "It returns None. " * 30, SUMMARY
    )
    desk.twin.faults("overloaded")
    agent = desk.agent(window=32_000)
    with pytest.raises(UpstreamError):
        agent.answer("Why does the login fail? " * 300)
    # Nothing is reported yet: the file does not show the system prompt and the tools.
    unanswered = told_everywhere(agent)
    agent.answer()
    before = told_everywhere(agent)
    run(agent, "/compact")
    after = told_everywhere(agent)
    agent.close()
    resumed = told_everywhere(desk.agent(window=32_000))
    assert [len(each) for told in (unanswered, before, after, resumed) for each in told] == [1] * 8
    assert resumed == after != before


def test_practice_costs_nothing_and_says_so(desk: Desk):
    desk.twin.script("Hello.")
    agent = desk.agent(connection=desk.connection()._replace(is_practice=True))
    agent.answer("Hello.")
    lines = run(agent, "/cost")
    assert lines[0].split()[-2:] == ["would", "cost"]
    assert lines[-2].startswith("Practice with the twin: nothing was billed.")
    agent.close()
    # With a real model, what the twin was asked before was not paid for.
    told = [line.plain for line in desk.agent().format_greeting()]
    assert " ".join(told[-2:]) == (
        "The twin has answered in this conversation: the cost includes prices nobody paid."
    )


@pytest.mark.spec("CP-36")
@pytest.mark.moves_cache_prefix(reason="a compaction is left behind")
def test_a_message_that_was_summarized_can_be_gone_back_to(desk: Desk):
    agent = begun(desk, SUMMARY)
    run(agent, "/compact")
    (listed, *_) = run(agent, "/rewind")
    assert listed.startswith("  1  Why does the login fail?")
    assert run(agent, "/rewind 1")[0].endswith("left behind. To say it differently:")
    assert [each for each in agent.session.conversation.log.view.records if each.blocks] == []


@pytest.mark.spec("CP-36")
def test_a_pin_that_a_rewind_leaves_behind_is_named(desk: Desk):
    agent = begun(desk)
    run(agent, "/pin Never push.")
    done = " ".join(run(agent, "/rewind 1"))
    assert "2 messages left behind. No longer pinned: Never push." in done


def test_a_hold_is_told_before_the_next_answer_and_its_saving_with_the_cost(desk: Desk):
    economy = EconomySettings(enabled=True, holds=True, hold_share=1.0, hold_after=timedelta(milliseconds=20))
    agent = desk.agent(model="claude-opus-4-5", economy=economy)
    desk.twin.script("Seen.", "Yes.")
    agent.answer("The log: " + "the token comes late. " * 2_300)
    until = time.monotonic() + 10
    while len(desk.twin.ledger) < 2 and time.monotonic() < until:
        time.sleep(0.01)
    time.sleep(0.1)
    # Not while somebody may be typing.
    assert "Cache held" not in desk.paper.text
    agent.answer("Go on.")
    assert "Cache held for $0.0" in desk.paper.text
    *_, held, _, saved = run(agent, "/cost")
    assert held.split()[0] == "holds"
    assert re.match(r"Input so far \$0\.\d{4}, holds and resets included: \$0\.\d{4} (less|more) than", saved)


@pytest.mark.moves_cache_prefix(reason="a compaction is made and taken back by hand")
def test_a_compaction_is_made_and_taken_back(desk: Desk):
    agent = begun(desk, SUMMARY)
    assert run(agent, "/compact keep the paths") == ["/undo reverts it."]
    assert "Compacted: " in desk.paper.text
    assert open_session(desk.path).view.boundary is not None
    (line, *_) = run(agent, "/undo")
    assert re.match(r"Compaction \w{8} no longer holds: ", line)
    assert open_session(desk.path).view.boundary is None
    assert run(agent, "/undo")[0].startswith("Nothing to undo: ")


def test_a_dry_run_tells_the_plan(desk: Desk):
    lines = run(begun(desk), "/compact --dry-run the paths")
    assert lines[0] == "/compact: a dry run, nothing was changed"
    assert any(line.startswith("summarizes") for line in lines)


def test_nothing_to_compact_is_a_sentence(desk: Desk):
    (line, *_) = run(desk.agent(), "/compact")
    assert line.startswith("Not compacted: ")


def test_words_are_pinned(desk: Desk):
    agent = begun(desk)
    assert run(agent, "/pin Never push to main.")[0].startswith("Pinned: ")
    assert b"Never push to main." in desk.path.read_bytes()
    with pytest.raises(UsageError, match="No text to pin"):
        run(agent, "/pin")


def test_recall_finds_what_was_said(desk: Desk):
    lines = run(begun(desk), "/recall login")
    assert any("login" in line for line in lines)


def test_retry_asks_again_for_the_answer(desk: Desk):
    desk.twin.faults("overloaded")
    agent = desk.agent()
    with pytest.raises(UpstreamError):
        agent.answer("Why?")
    desk.twin.script("Because.")
    assert run(agent, "/retry") == []
    assert desk.paper.lines[-1] == "Because."


def test_resume_lists_conversations_and_continues_one(desk: Desk):
    first = begun(desk)
    run(first, "/clear")
    assert first.session.path != str(desk.path)
    desk.twin.script("Hello.")
    first.answer("Good morning.")
    lines = run(first, "/resume")
    assert [" ".join(line.split()[:2]) for line in lines[1:3]] == ["1 now", "2 now"]
    assert run(first, "/resume one")[0].startswith("Resuming one: 2 messages")
    assert first.session.path == str(desk.path)
    # Its own conversation is no other one.
    assert run(first, "/resume one")[0].startswith("Resuming one: 2 messages")
    with pytest.raises(UsageError, match="No conversation found whose id starts with 'zzz'"):
        run(first, "/resume zzz")


def test_a_conversation_that_cannot_be_opened_leaves_the_present_one_open(desk: Desk):
    agent = begun(desk)
    (desk.data / "two.jsonl").write_text("<html>")
    with pytest.raises(NotASession):
        run(agent, "/resume two")
    desk.twin.script("Still here.")
    assert agent.answer("Are you there?").text == "Still here."


def test_another_model_goes_on_with_the_same_conversation(desk: Desk):
    agent = begun(desk)
    assert run(agent, "/model") == ["The model is claude-haiku-4-5. Change it with /model NAME."]
    assert run(agent, "/model claude-sonnet-4-5") == [
        "Model set to claude-sonnet-4-5. Its cache starts empty."
    ]
    assert agent.session.context().model == "claude-sonnet-4-5"
    assert len(agent.session.conversation.log.records) == 2
    assert "Unknown model" in " ".join(run(agent, "/model claude-unheard-of"))


def test_permissions_are_shown_and_changed(desk: Desk):
    agent = desk.agent()
    assert run(agent, "/permissions accept-edits")[0] == "  mode        accept edits"
    assert agent.permissions.mode == "accept edits"
    with pytest.raises(UsageError, match="Unknown permission mode"):
        run(agent, "/permissions everything")


def test_quit_leaves(desk: Desk):
    with pytest.raises(EOFError):
        run(desk.agent(), "/quit")
