"""Lone surrogates, which names of files have, at every entry of a session."""

from typing import Any

import pytest
from surfaces.desk import SUMMARY, Desk, call, tool

from everturn import CallbackHook, Hooks, Tool
from everturn.session.tools import ToolResult
from everturn.session.valid_text import make_encodable, replace_lone_surrogates
from everturn.view.system_prompt import SystemPromptSections

NAME, SENT = "caf\udce9.txt", "caf\ufffd.txt"


@pytest.fixture
def desk(tmp_path, twin) -> Desk:
    return Desk(tmp_path, twin)


def sections() -> SystemPromptSections:
    made = SystemPromptSections(attribution=f"for {NAME}", identity=f"I am {NAME}")
    made.static("file", lambda: f"See {NAME}")
    return made


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ("plain", "plain"),
        ("\u00e9\U0001f600", "\u00e9\U0001f600"),
        ("\ud83d\ude00", "\U0001f600"),
        (NAME, SENT),
    ],
)
def test_a_lone_surrogate_is_replaced_and_a_pair_is_joined(text, valid):
    assert replace_lone_surrogates(text) == valid
    assert make_encodable({text: [text, (1, None)]}) == {valid: [valid, [1, None]]}


@pytest.mark.parametrize(
    "say",
    [
        lambda session: session.send(NAME),
        lambda session: list(session.stream(NAME)),
        lambda session: session.send([{"type": "text", "text": NAME}]),
    ],
)
def test_a_message_with_a_lone_surrogate_is_sent_with_a_replacement(desk, say):
    with desk.open() as session:
        say(session)
    assert desk.bodies[-1]["messages"][-1]["content"][0]["text"] == SENT


@pytest.mark.parametrize("how", ["returns", "raises", "caller"])
def test_a_result_with_a_lone_surrogate_is_sent_with_a_replacement(desk, how):
    def run(_: Any) -> str:
        if how == "raises":
            raise FileNotFoundError(NAME)
        return NAME

    desk.twin.script({"content": [call("toolu_1")]}, "Seen.")
    with desk.open(tools=[tool("Read", None if how == "caller" else run)]) as session:
        session.send("Read it.")
        if how == "caller":
            session.send([ToolResult("toolu_1", NAME)])
    said = f"FileNotFoundError: {SENT}" if how == "raises" else SENT
    assert desk.bodies[-1]["messages"][-1]["content"][0]["content"] == said


@pytest.mark.parametrize("system", [f"Mind {NAME}.", sections()], ids=["text", "sections"])
def test_the_system_prompt_and_the_tools_may_have_lone_surrogates(desk, system):
    described = Tool({"name": "Read", "description": NAME, "input_schema": {"type": "object"}})
    with desk.open(system=system, tools=[described]) as session:
        session.send("Hello.")
    sent = [block["text"] for block in desk.bodies[-1]["system"]]
    expected = (
        [f"Mind {SENT}."] if isinstance(system, str) else [f"for {SENT}", f"I am {SENT}", f"See {SENT}"]
    )
    assert (sent, desk.bodies[-1]["tools"][0]["description"]) == (expected, SENT)


@pytest.mark.parametrize("event", ["SessionStart", "UserPromptSubmit", "PostToolUse"])
def test_what_a_hook_adds_may_have_lone_surrogates(desk, event):
    desk.twin.script({"content": [call("toolu_1")]}, "Seen.")
    hooks = Hooks((CallbackHook(event, lambda _: f"See {NAME}"),))
    with desk.open(tools=[tool("Read", lambda _: "x")], hooks=hooks) as session:
        assert session.send("Read it.").text == "Seen."
    assert f"See {SENT}" in str(desk.bodies[-1]["messages"])


def test_pins_and_instructions_may_have_lone_surrogates(desk):
    with desk.open() as session:
        desk.talk(session)
        session.pin(f"Never touch {NAME}.")
        desk.twin.script(SUMMARY)
        session.compact(f"Keep {NAME}.")
        assert [pin.text for pin in session.conversation.log.view.pins] == [f"Never touch {SENT}."]
    assert f"Keep {SENT}." in str(desk.bodies[-1]["messages"])


def test_a_session_lives_in_a_folder_whose_name_is_not_utf_8(desk):
    folder = desk.folder / NAME
    folder.mkdir()
    desk.path = folder / f"{NAME}.jsonl"
    desk.twin.script({"content": [call("toolu_1")]}, "Seen.")
    with desk.open(cwd=folder, tools=[tool("Read", lambda _: "a long line. " * 50_000)]) as session:
        assert session.send("Read it.").text == "Seen."
        desk.talk(session)
        desk.twin.script(SUMMARY)
        session.compact()
        said = [record.uuid for record in session.conversation.log.records]
    with desk.open(cwd=folder) as session:
        assert [record.uuid for record in session.conversation.log.records] == said
        assert (session.id, desk.lines()[0]["cwd"]) == (SENT, f"{desk.folder}/{SENT}")
