"""The transcript on disk, and what a session makes of one that it finds there (TR)."""

import json
from itertools import pairwise
from shutil import copy

import pytest
from surfaces.desk import SUMMARY, assistant_line, call, result, text, texts, tool, user_line, words

from everturn.session.upstream import RawResponse

READ = tool("Read", lambda given: f"contents of {given['file_path']}")
ENVELOPE = {"uuid", "parentUuid", "timestamp", "sessionId", "isSidechain", "type"}


@pytest.mark.spec("TR-1", "TR-6")
def test_every_record_is_a_line_in_the_format_of_claude_code(desk):
    with desk.open(tools=[READ]) as session:
        desk.use_tool(session, 1)
    lines = desk.lines()
    assert [line["type"] for line in lines] == ["user", "assistant", "user", "assistant"]
    assert all(line.keys() >= ENVELOPE for line in lines)
    assert [line["parentUuid"] for line in lines] == [None, *(line["uuid"] for line in lines[:-1])]
    reply = lines[1]["message"]
    assert (reply["model"], reply["role"], reply["stop_reason"]) == (
        "claude-haiku-4-5",
        "assistant",
        "tool_use",
    )
    assert reply["id"].startswith("msg_")
    assert reply["usage"]["input_tokens"] + reply["usage"]["cache_creation_input_tokens"] > 0


@pytest.mark.spec("TR-2")
def test_blocks_and_fields_of_an_unknown_kind_are_sent_back_byte_for_byte(desk):
    strange = '{"type":"hologram","depth":3,"points":[1,2.50],"who":{"b":1,"a":2}}'
    known = '{"type":"text","text":"Yes.","mood":"calm"}'
    desk.write(user_line("Hi."), assistant_line(text("X")))
    raw = desk.path.read_text().replace('{"type": "text", "text": "X"}', f"{known},{strange}")
    desk.path.write_text(raw)
    sent: list[bytes] = []

    def send(body, betas):
        sent.append(body)
        reply = {"id": "msg_2", "type": "message", "role": "assistant", "content": [text("Well.")]}
        return RawResponse(json.dumps({**reply, "model": "m", "usage": {}}).encode())

    with desk.open(client=None, send=send) as session:
        session.send("Go on.")
    assert f"{known},{strange}".encode() in sent[0]


@pytest.mark.spec("TR-3", "TR-8", "CP-30")
def test_the_file_only_ever_grows(desk):
    kept = []
    with desk.open() as session:
        desk.talk(session)
        kept.append(desk.path.read_bytes())
        desk.twin.script(SUMMARY)
        session.compact()
        kept.append(desk.path.read_bytes())
        session.undo()
        kept.append(desk.path.read_bytes())
        desk.talk(session, 1)
        kept.append(desk.path.read_bytes())
    for before, after in pairwise(kept):
        assert len(after) > len(before)
        assert after.startswith(before)


@pytest.mark.spec("TR-4")
def test_a_compaction_leaves_a_boundary_with_its_facts(desk):
    with desk.open() as session:
        desk.talk(session)
        last = desk.lines()[-1]["uuid"]
        before = session.context().size.tokens
        desk.twin.script(SUMMARY)
        session.compact("Keep the names of files.")
    boundary = next(line for line in desk.lines() if line.get("subtype") == "compact_boundary")
    assert (boundary["type"], boundary["content"]) == ("system", "Conversation compacted")
    assert boundary["logicalParentUuid"] == last
    facts = boundary["compactMetadata"]
    assert (facts["trigger"], facts["preTokens"]) == ("manual", before)
    assert facts["messagesSummarized"] == 6
    assert facts["userContext"] == "Keep the names of files."


@pytest.mark.spec("TR-5", "CP-10")
def test_after_a_compaction_the_model_sees_the_summary_and_the_next_one_summarizes_it(desk):
    with desk.open() as session:
        desk.talk(session)
        desk.twin.script(SUMMARY)
        session.compact()
        desk.talk(session, 1)
        [message] = desk.bodies[-1]["messages"]
        assert "waiting for the token" in texts(message)[0]
        assert "Question 0" in texts(message)[-1]
        assert "Question 2" not in words(desk.bodies[-1])
        desk.twin.script(SUMMARY)
        session.compact()
    assert "waiting for the token" in words(desk.bodies[-1])


@pytest.mark.spec("TR-6")
def test_a_file_of_claude_code_opens_unchanged_and_goes_on(desk, pytestconfig):
    copy(pytestconfig.rootpath / "examples" / "session.jsonl", desk.path)
    before = desk.path.read_bytes()
    desk.send_once(ways=("extract",))
    assert desk.path.read_bytes().startswith(before)


@pytest.mark.spec("TR-6")
def test_lines_and_fields_that_nobody_knows_stay_in_the_file(desk):
    desk.write(
        user_line("Hi.", weather="rain"),
        {"type": "telepathy", "thought": "?"},
        assistant_line(text("Yes.")),
    )
    before = desk.path.read_bytes()
    desk.send_once()
    assert desk.path.read_bytes().startswith(before)


@pytest.mark.spec("TR-7", "FLAT-4")
def test_a_reply_in_pieces_with_results_between_them_is_one_message_and_one_answer(desk):
    calls = [call("toolu_1", file_path="a"), call("toolu_2", file_path="b")]
    desk.write(
        user_line("Read both."),
        assistant_line(calls[0]),
        user_line([result("toolu_1", "A")]),
        assistant_line(calls[1]),
        user_line([result("toolu_2", "B")]),
    )
    first, reply, answers = desk.send_once(tools=[READ])["messages"]
    assert texts(first) == ["Read both."]
    assert reply == {"role": "assistant", "content": calls}
    assert texts(answers) == ["A", "B", "Go on."]


@pytest.mark.spec("TR-9", "CP-5", "CP-12")
@pytest.mark.parametrize("where", ["from_", "up_to"])
def test_a_partly_compacted_session_reopens_with_the_view_it_had(desk, where):
    with desk.open() as session:
        desk.talk(session)
        middle = desk.lines()[2]["uuid"]
        desk.twin.script(SUMMARY)
        session.compact(**{where: middle})
        desk.twin.script("Well.")
        session.send("Where were we?")
    live = desk.bodies[-1]["messages"]
    after = desk.send_once()["messages"]
    # The marker of the last request is not part of the conversation.
    assert json.dumps(live[:-1]) == json.dumps(after[: len(live) - 1])
    kept = "Question 0" if where == "from_" else "Question 2"
    gone = "Question 2" if where == "from_" else "Question 0"
    assert kept in json.dumps(live)
    assert gone not in json.dumps(live)


@pytest.mark.spec("TR-9")
def test_what_a_sub_agent_said_is_not_part_of_the_conversation(desk):
    desk.write(
        user_line("Hi."),
        user_line("Look around.", isSidechain=True, agentId="a1", parentUuid=None, uuid="side"),
        assistant_line(text("Hello."), parentUuid="u0"),
    )
    assert [texts(each) for each in desk.send_once()["messages"]] == [["Hi."], ["Hello."], ["Go on."]]


@pytest.mark.spec("TR-10")
def test_a_torn_last_line_is_left_out_and_reported(desk):
    desk.write(user_line("Hi."), assistant_line(text("Yes.")))
    whole = desk.path.read_bytes()
    desk.path.write_bytes(whole + b'{"type":"user","uuid":"u9","mess')
    with desk.open() as session:
        assert len(session.remarks) == 1
        desk.twin.script("Well.")
        session.send("Go on.")
    assert [texts(each) for each in desk.bodies[-1]["messages"]] == [["Hi."], ["Yes."], ["Go on."]]


@pytest.mark.spec("TR-10")
def test_a_boundary_without_its_summary_leaves_the_old_view_in_force(desk):
    boundary = {
        "type": "system",
        "subtype": "compact_boundary",
        "content": "Conversation compacted",
        "compactMetadata": {"trigger": "auto", "preTokens": 9},
        "parentUuid": None,
        "logicalParentUuid": "u1",
    }
    desk.write(user_line("Hi."), assistant_line(text("Yes.")), boundary)
    assert [texts(each) for each in desk.send_once()["messages"]] == [["Hi."], ["Yes."], ["Go on."]]


@pytest.mark.spec("TR-11")
def test_a_broken_session_is_repaired_with_placeholders_and_the_repair_is_reported(desk):
    desk.write(
        user_line("Read it."),
        assistant_line(call("toolu_1", file_path="a")),
        user_line([result("toolu_9", "of nobody")]),
    )
    body = desk.send_once(tools=[READ])
    assert [entry["status"] for entry in desk.twin.ledger] == [200]
    answered = [block for block in body["messages"][2]["content"] if block["type"] == "tool_result"]
    assert [block["tool_use_id"] for block in answered] == ["toolu_1"]
    [event] = desk.heard("Repaired")
    assert sum(event.kinds.values()) == 2
