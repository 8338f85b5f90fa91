"""Going back to an earlier message (CP-36)."""

import json

import pytest
from surfaces.desk import assistant_line, call, result, text, tool, user_line, words

import everturn
from everturn.session.upstream import UpstreamError
from everturn.twin.upstream import make_twin_send


def said(session, role="user"):
    return [record for record in session.conversation.log.view.records if record.kind == role]


def talk(desk, session, *numbers):
    for number in numbers:
        desk.twin.script(f"Answer {number}.")
        session.send(f"Question {number}.")


def shown(desk):
    return words(desk.bodies[-1])


def test_a_message_of_the_user_is_taken_back_and_said_differently(desk):
    with desk.open() as session:
        talk(desk, session, 0, 1, 2)
        left = said(session, "assistant")[-1].uuid
        done = session.rewind(said(session)[1].uuid)
        assert done == everturn.Rewind("Question 1.", left, 4)
        desk.twin.script("Another answer.")
        session.send("Another question.")
    assert shown(desk) == "\n".join(["Question 0.", "Answer 0.", "Another question."])


def test_a_rewind_holds_when_the_session_is_opened_again(desk):
    with desk.open() as session:
        talk(desk, session, 0, 1, 2)
        session.rewind(said(session)[2].uuid)
    with desk.open() as session:
        talk(desk, session, 7)
    assert shown(desk) == "\n".join(["Question 0.", "Answer 0.", "Question 1.", "Answer 1.", "Question 7."])


def test_the_branch_left_behind_can_be_returned_to(desk):
    with desk.open() as session:
        talk(desk, session, 0, 1)
        left = session.rewind(said(session)[1].uuid).left
        talk(desk, session, 5)
        back = session.rewind(left)
        assert (back.text, back.messages) == ("", 2)
        talk(desk, session, 6)
    assert shown(desk) == "\n".join(["Question 0.", "Answer 0.", "Question 1.", "Answer 1.", "Question 6."])


@pytest.mark.parametrize("length", [36, 8], ids=["whole", "beginning"])
def test_a_message_that_a_file_holds_twice_is_no_branch_and_can_be_gone_back_to(desk, length):
    """As in a file of Claude Code, in which a reply was written once more."""
    with desk.open() as session:
        talk(desk, session, 0, 1)
        twice = said(session, "assistant")[0].uuid
    lines = desk.path.read_text().splitlines(keepends=True)
    copied = next(line for line in lines if f'"uuid":"{twice}"' in line)
    desk.path.write_text("".join((*lines[:2], copied.replace('"cwd":"', '"cwd":"/home'), *lines[2:])))
    with desk.open() as session:
        assert session.branches() == ()
        session.rewind(twice[:length])
        talk(desk, session, 5)
    assert shown(desk) == "\n".join(["Question 0.", "Answer 0.", "Question 5."])


@pytest.mark.spec("CP-36")
def test_branches_left_behind_are_listed_and_each_can_be_returned_to(desk):
    with desk.open() as session:
        talk(desk, session, 0, 1)
        assert session.branches() == ()
        session.rewind(said(session)[1].uuid)
        talk(desk, session, 5, 6)
        session.rewind(said(session)[2].uuid)
    with desk.open() as session:
        first, second = session.branches()
        assert [(each.text, each.messages) for each in (first, second)] == [
            ("Question 1.", 2),
            ("Question 6.", 2),
        ]
        session.rewind(second.uuid)
        assert [each.text for each in session.branches()] == ["Question 1."]
        talk(desk, session, 7)
        assert shown(desk).splitlines()[2:] == [
            "Question 5.", "Answer 5.", "Question 6.", "Answer 6.", "Question 7."
        ]  # fmt: skip
        session.rewind(first.uuid)
        talk(desk, session, 8)
    assert shown(desk).splitlines()[2:] == ["Question 1.", "Answer 1.", "Question 8."]


@pytest.mark.spec("CP-36")
def test_a_branch_with_a_compaction_at_its_end_can_be_returned_to(desk):
    with desk.open() as session:
        desk.talk(session, turns=3, size=400)
        before, second = messages(session), said(session)[1].uuid
        assert isinstance(session.compact(), everturn.Compaction)
        compacted = messages(session)
        done = session.rewind(second)
        assert (done.left, done.messages) == (before[-1], 4)
        session.rewind(done.left)
        assert messages(session) == compacted
        # Once more: now the conversation has the compaction, and the reply stands before it.
        session.rewind(done.left)
        assert messages(session) == before


@pytest.mark.parametrize("form", ["from_", "up_to"])
def test_a_person_summarizes_from_a_message_or_up_to_it(desk, form):
    with desk.open(compact={"strategies": ["extractive"]}) as session:
        desk.talk(session, turns=4, size=400)
        chosen = said(session)[2].uuid
        assert isinstance(session.compact(**{form: chosen}), everturn.Compaction)
        kept = {record.uuid for record in session.conversation.log.view.records}
        talk(desk, session, 9)
    assert (chosen in kept) == (form == "up_to")
    assert [entry["status"] for entry in desk.twin.ledger] == [200] * 5


def test_the_first_message_can_be_taken_back(desk):
    with desk.open() as session:
        talk(desk, session, 0, 1)
        assert session.rewind(said(session)[0].uuid).messages == 4
        talk(desk, session, 3)
    assert shown(desk) == "Question 3."


def test_a_reply_stays_with_the_results_of_its_calls(desk):
    with desk.open(tools=[tool("Read", lambda given: "the content")]) as session:
        desk.twin.script({"content": [call("toolu_1", "Read", file_path="a.py")]}, "Seen.")
        session.send("Look.")
        talk(desk, session, 1)
        calling = said(session, "assistant")[0]
        session.rewind(calling.uuid)
        desk.twin.script("Going on.")
        session.send("Go on.")
    assert [entry["status"] for entry in desk.twin.ledger] == [200] * 4
    assert "the content" in shown(desk)
    assert "Seen." not in shown(desk)


def test_going_back_behind_a_compaction_shows_what_was_there(desk):
    with desk.open(compact={"strategies": ["extractive"]}) as session:
        desk.talk(session, turns=3, size=400)
        first = said(session)[1].uuid
        assert isinstance(session.compact(), everturn.Compaction)
        session.rewind(first)
        talk(desk, session, 9)
    assert shown(desk).startswith("Question 0 about the login test.")
    assert "summar" not in shown(desk)


@pytest.mark.spec("CP-36")
def test_a_rewind_to_the_last_message_before_a_summary_leaves_what_was_summarized_behind(desk):
    """The reply is the end of what the compaction has kept, in front of its summary."""
    with desk.open(compact={"strategies": ["extractive"]}) as session:
        desk.talk(session, turns=4, size=400)
        before, third = said(session, "assistant")[1].uuid, said(session)[2].uuid
        assert isinstance(session.compact(from_=third), everturn.Compaction)
        session.rewind(before)
        talk(desk, session, 9)
        view = names(session)
    assert [line[:10] for line in shown(desk).splitlines()] == ["Question 0", "Answer 0: ", "Question 1",
        "Answer 1: ", "Question 9"]  # fmt: skip
    with desk.open() as session:
        assert names(session) == view


@pytest.mark.spec("CP-36")
def test_a_rewind_to_what_an_earlier_compaction_has_kept_stays_under_it(desk):
    """Bookkeeping was kept behind that reply, and a later compaction has kept the earlier one's summary."""
    with desk.open(compact={"strategies": ["extractive"]}) as session:
        desk.talk(session, turns=3, size=400)
        kept = said(session, "assistant")[-1].uuid
        session.rewind(kept)
        assert isinstance(session.compact(up_to=said(session)[2].uuid), everturn.Compaction)
        before = messages(session)
        desk.talk(session, turns=1, size=400)
        assert isinstance(session.compact(from_=said(session)[-1].uuid), everturn.Compaction)
        session.rewind(kept)
        assert messages(session) == before
    with desk.open() as session:
        assert messages(session) == before


@pytest.mark.spec("CP-36")
def test_a_rewind_to_what_a_compaction_has_kept_stays_under_it_although_a_branch_has_undone_it(desk):
    """The rewind before it has left the branch with the undo behind, so the compaction holds again."""
    with desk.open(compact={"strategies": ["extractive"]}) as session:
        desk.talk(session, turns=3, size=400)
        kept, third = said(session, "assistant")[-1].uuid, said(session)[2].uuid
        assert isinstance(session.compact(up_to=third), everturn.Compaction)
        before = messages(session)
        desk.talk(session, turns=1, size=400)
        session.undo()
        session.rewind(said(session)[-1].uuid)
        assert messages(session) == before
        session.rewind(kept)
        assert messages(session) == before
        talk(desk, session, 9)
        view = names(session)
    assert shown(desk).endswith("Question 9.")
    with desk.open() as session:
        assert names(session) == view


@pytest.mark.spec("CP-36", "TR-9")
def test_a_session_goes_on_from_a_rewind_and_not_from_what_a_hook_has_added_there(desk):
    """The hook's words are the end of what a compaction has kept. Continued from them, the file had the
    compaction, and the session had not."""
    hooks = everturn.Hooks((everturn.CallbackHook("SessionStart", lambda _: "The build is red."),))
    with desk.open() as session:
        desk.talk(session, turns=3, size=400)
        reply = said(session, "assistant")[-1].uuid
    with desk.open(hooks=hooks, compact={"strategies": ["extractive"]}) as session:
        assert isinstance(session.compact(up_to=reply), everturn.Compaction)
        compacted = names(session)
        session.rewind(reply)
        # Nothing was said since: the compaction stays.
        assert names(session)[:-1] == compacted
        talk(desk, session, 8)
        view = names(session)
    with desk.open(session_start="none") as session:
        assert names(session) == view


@pytest.mark.spec("CP-36")
def test_a_rewind_stays_under_a_compaction_whose_summary_a_later_one_has_replaced(desk):
    """A hook's words behind the reply were the end of what the first compaction has kept."""
    hooks = everturn.Hooks((everturn.CallbackHook("SessionStart", lambda _: "The build is red."),))
    with desk.open() as session:
        desk.talk(session, turns=3, size=400)
        reply, third = said(session, "assistant")[-1].uuid, said(session)[2].uuid
    with desk.open(hooks=hooks, compact={"strategies": ["extractive"]}) as session:
        assert isinstance(session.compact(up_to=third), everturn.Compaction)
        before = messages(session)
        desk.talk(session, turns=1, size=400)
        assert isinstance(session.compact(up_to=said(session)[-1].uuid), everturn.Compaction)
        session.rewind(reply)
        assert messages(session) == before
    with desk.open() as session:
        assert messages(session) == before


@pytest.mark.spec("CP-36")
def test_a_rewind_stays_under_a_compaction_that_was_made_after_another_was_undone(desk):
    """The end of what it has kept are a hook's words behind the undo."""
    hooks = everturn.Hooks((everturn.CallbackHook("SessionStart", lambda _: "The build is red."),))
    with desk.open(compact={"strategies": ["extractive"]}) as session:
        desk.talk(session, turns=4, size=400)
        reply, third = said(session, "assistant")[-1].uuid, said(session)[2].uuid
        assert isinstance(session.compact(from_=third), everturn.Compaction)
        session.undo()
    with desk.open(hooks=hooks, compact={"strategies": ["extractive"]}) as session:
        assert isinstance(session.compact(up_to=third), everturn.Compaction)
        before = messages(session)
        desk.talk(session, turns=1, size=400)
        session.rewind(reply)
        assert messages(session) == before
    with desk.open() as session:
        assert messages(session) == before


@pytest.mark.spec("CP-36")
def test_an_undo_on_a_branch_on_which_nothing_was_said_is_left_with_it(desk):
    with desk.open(compact={"strategies": ["extractive"]}) as session:
        desk.talk(session, turns=3, size=400)
        assert isinstance(session.compact(up_to=said(session)[2].uuid), everturn.Compaction)
        desk.talk(session, turns=1, size=400)
        before = messages(session)
        left = session.rewind(said(session)[-1].uuid).left
        session.undo()
        session.rewind(left)
        assert messages(session) == before
        talk(desk, session, 9)
        view = names(session)
    with desk.open() as session:
        assert names(session) == view


def test_a_branch_with_a_compaction_in_it_is_one_branch(desk):
    with desk.open(compact={"strategies": ["extractive"]}) as session:
        desk.talk(session, turns=3, size=400)
        second = said(session)[1].uuid
        assert isinstance(session.compact(), everturn.Compaction)
        talk(desk, session, 9)
        done = session.rewind(second)
        assert session.branches() == (everturn.Branch(done.left, "Question 9.", done.messages),)


def test_a_session_whose_file_holds_only_lines_that_were_cut_off_has_no_branches(desk):
    desk.path.write_bytes(b'{"parentUuid":null\n{"parent')
    with desk.open() as session:
        assert session.branches() == ()
        with pytest.raises(everturn.UsageError, match="has no record 'a message'"):
            session.rewind("a message")
        talk(desk, session, 0)
        assert session.rewind(said(session)[0].uuid).text == "Question 0."


def test_a_rewind_tells_which_pins_it_leaves_behind(desk):
    with desk.open() as session:
        talk(desk, session, 0)
        session.pin("Use tabs.")
        talk(desk, session, 1)
        session.pin("Never push.")
        talk(desk, session, 2)
        assert session.rewind(said(session)[2].uuid).pins == ()
        assert session.rewind(said(session)[1].uuid).pins == ("Never push.",)
        assert [pin.text for pin in session.conversation.log.view.pins] == ["Use tabs."]


def names(session):
    return [record.uuid for record in session.conversation.log.view.records]


def messages(session):
    """Also the summary, without what is attached and without bookkeeping."""
    return [each.uuid for each in session.conversation.log.view.records if each.kind in ("user", "assistant")]


def pinned(session):
    return [pin.text for pin in session.conversation.log.view.pins]


@pytest.mark.parametrize(
    ("uuid", "told"),
    [
        ("no-such-message", "The session has no record 'no-such-message'. Name a message by its uuid."),
        ("x", "The session has no record 'x'. Name a message by its uuid."),
    ],
)
def test_a_message_that_is_not_there_is_named(desk, uuid, told):
    with desk.open() as session:
        talk(desk, session, 0)
        with pytest.raises(everturn.UsageError) as refused:
            session.rewind(uuid)
    assert str(refused.value) == told


def test_a_summary_and_a_result_are_no_place_to_go_back_to(desk):
    with desk.open(
        compact={"strategies": ["extractive"]}, tools=[tool("Read", lambda given: "x")]
    ) as session:
        desk.use_tool(session, 1)
        result = next(record for record in said(session) if any(block.is_result for block in record.blocks))
        with pytest.raises(everturn.UsageError, match="is not a message of the user or the model"):
            session.rewind(result.uuid)
        desk.talk(session, turns=3, size=400)
        session.compact()
        summary = next(record for record in session.conversation.log.view.records if record.compact_summary)
        with pytest.raises(everturn.UsageError, match="undo the compaction"):
            session.rewind(summary.uuid)


@pytest.mark.spec("PC-16")
@pytest.mark.moves_cache_prefix(
    reason="the system prompt changes, and thinking that is bound to it is refused"
)
def test_thinking_that_a_rewind_brings_back_under_another_prompt_is_left_out_after_a_refusal(desk):
    """The edit that had dropped it is on the branch left behind; what it was written with is not known."""
    model = {
        "model": "claude-fable-5-2",
        "thinking": {"type": "adaptive"},
        "client": None,
        "send": expecting_refused_thinking(desk),
    }

    def think(session, *numbers):
        for number in numbers:
            thought = {"type": "thinking", "thinking": f"Thought {number}."}
            desk.twin.script({"content": [thought, {"type": "text", "text": f"Answer {number}."}]})
            session.send(f"Question {number}.")

    with desk.open(system="Use tabs.", **model) as session:
        think(session, 0, 1)
        before = said(session, "assistant")[-1].uuid
    with desk.open(system="Use spaces.", **model) as session:
        think(session, 2)
        session.rewind(before)
        sent = len(desk.bodies)
        think(session, 3)
        # One refused request; the next one has no thinking.
        assert [count_thoughts(body) for body in desk.bodies[sent:]] == [2, 0]
        think(session, 4)
    with desk.open(system="Use spaces.", **model) as session:
        think(session, 5)
    assert shown(desk) == "\n".join(
        ["Question 0.", "Answer 0.", "Question 1.", "Answer 1."]
        + [part for at in (3, 4) for part in (f"Question {at}.", "", f"Answer {at}.")]
        + ["Question 5."]
    )
    heard = [each for each in desk.heard("MicroCompacted") if each.kind == "thinking"]
    assert [each.why.partition(" in ")[0] for each in heard] == [
        "the API refused it: messages.1.content.0: Invalid `signature`"
    ]


def expecting_refused_thinking(desk):
    """Keeps every body. That the twin refuses thinking is what this test is about, and no defect."""
    send = make_twin_send(desk.twin.twin)

    def keep(body, betas):
        desk.bodies.append(json.loads(body))
        try:
            return send(body, betas)
        except UpstreamError as error:
            error.is_on_purpose = "Invalid `signature`" in error.message
            raise

    return keep


def count_thoughts(body):
    return sum(block["type"] == "thinking" for message in body["messages"] for block in message["content"])


@pytest.mark.spec("CP-36")
def test_an_undo_and_a_pin_behind_a_rewind_stay_when_the_same_message_is_gone_back_to_again(desk):
    """The second rewind continued the reply, so what was done behind the first one was left."""
    with desk.open(compact={"strategies": ["extractive"]}) as session:
        desk.talk(session, turns=3, size=400)
        assert isinstance(session.compact(), everturn.Compaction)
        talk(desk, session, 4, 5)
        reply, question = said(session, "assistant")[0].uuid, said(session)[-1].uuid
        session.rewind(reply)
        session.undo()
        session.pin("Never push to main.")
        before = messages(session)
        for uuid in (reply, question, reply):
            session.rewind(uuid)
            assert messages(session) == before
            assert [pin.text for pin in session.conversation.log.view.pins] == ["Never push to main."]
        talk(desk, session, 6)
        view = names(session)
    with desk.open() as session:
        assert names(session) == view


@pytest.mark.spec("CP-36", "TR-9")
@pytest.mark.parametrize("agent", [{"agentId": "a1"}, {}], ids=["named", "older"])
def test_the_first_message_of_a_sub_agents_file_can_be_taken_back_and_returned_to(desk, agent):
    """The rewind was written as a main thread of its own, beside which the whole file was a sub-agent's."""
    agent = {"isSidechain": True, **agent}
    desk.write(user_line("Warm up.", **agent), assistant_line(text("I am warm."), **agent))
    with desk.open() as session:
        left = session.rewind(said(session)[0].uuid).left
        talk(desk, session, 1)
        assert shown(desk) == "Question 1."
    with desk.open() as session:
        assert [branch.uuid for branch in session.branches()] == [left]
        session.rewind(left)
        talk(desk, session, 2)
    assert shown(desk) == "\n".join(["Warm up.", "I am warm.", "Question 2."])


@pytest.mark.spec("CP-32", "CP-36")
def test_a_pin_made_right_after_a_return_to_a_branch_is_there_at_the_next_return(desk):
    """It hangs on the rewind. A pin that hangs on the reply itself stays too."""
    with desk.open() as session:
        talk(desk, session, 0, 1, 2)
        last, second = said(session, "assistant")[-1].uuid, said(session)[1].uuid
        session.rewind(second)
        session.rewind(last)
        session.pin("Never push to main.")
        session.rewind(second)
        assert session.conversation.log.view.pins == ()
        session.rewind(last)
        assert [pin.text for pin in session.conversation.log.view.pins] == ["Never push to main."]
        talk(desk, session, 3)
        view = names(session)
    with desk.open() as session:
        assert names(session) == view


@pytest.mark.spec("CP-36", "TR-9")
def test_a_result_beside_the_way_to_the_next_reply_is_no_branch(desk):
    """As Claude Code writes parallel calls: each result continues the piece of the reply with its call."""
    desk.write(
        user_line("Look."),
        assistant_line(call("t1")),
        assistant_line(call("t2")),
        user_line([result("t1", "one")], parentUuid="u1"),
        user_line([result("t2", "two")], parentUuid="u2"),
        assistant_line(text("Both seen."), id="msg_2"),
    )
    with desk.open(tools=[tool("Read", lambda given: "x")]) as session:
        before = messages(session)
        session.rewind("u0")
        assert [branch.uuid for branch in session.branches()] == ["u5"]
        session.rewind("u5")
        assert messages(session) == before


@pytest.mark.spec("CP-36", "TR-9")
def test_a_branch_that_ends_with_results_beside_one_another_is_one(desk):
    desk.write(
        user_line("Look."),
        assistant_line(call("t1")),
        assistant_line(call("t2")),
        user_line([result("t1", "one")], parentUuid="u1"),
        user_line([result("t2", "two")], parentUuid="u2"),
    )
    with desk.open(tools=[tool("Read", lambda given: "x")]) as session:
        before = messages(session)
        session.rewind("u0")
        (branch,) = session.branches()
        session.rewind(branch.uuid)
        assert messages(session) == before


@pytest.mark.spec("CP-36", "TR-9")
def test_a_record_that_stands_behind_the_one_that_continues_it_ends_no_branch(desk):
    desk.write(
        user_line("Look."),
        assistant_line(call("t1")),
        {"type": "attachment", "attachment": {"type": "hook_success", "content": ""}, "parentUuid": "u3"},
        user_line([result("t1", "one")], parentUuid="u1"),
        assistant_line(text("Seen."), id="msg_2", parentUuid="u2"),
    )
    with desk.open(tools=[tool("Read", lambda given: "x")]) as session:
        session.rewind("u0")
        assert [branch.uuid for branch in session.branches()] == ["u4"]


@pytest.mark.spec("CP-36", "TR-9")
def test_an_undo_on_a_branch_that_was_returned_to_is_there_at_the_next_return(desk):
    """It hangs on the rewind that returned, and a rewind to the reply continued the reply."""
    with desk.open(compact={"strategies": ["extractive"]}) as session:
        desk.talk(session, turns=4, size=400)
        first = said(session)[0].uuid
        assert isinstance(session.compact(up_to=said(session)[2].uuid), everturn.Compaction)
        talk(desk, session, 5)
        left = session.rewind(first).left
        session.rewind(left)
        session.undo()
        before = messages(session)
        session.rewind(first)
        session.rewind(left)
        assert messages(session) == before
    with desk.open() as session:
        assert messages(session) == before


@pytest.mark.spec("CP-32", "CP-36")
@pytest.mark.parametrize("is_pinned_first", [True, False])
def test_a_pin_beside_an_undone_compaction_is_there_when_its_branch_is_returned_to(desk, is_pinned_first):
    with desk.open(compact={"strategies": ["extractive"]}) as session:
        desk.talk(session, turns=3, size=400)
        before = messages(session)
        assert isinstance(session.compact(), everturn.Compaction)
        if is_pinned_first:
            session.pin("Never push to main.")
        session.undo()
        if not is_pinned_first:
            session.pin("Never push to main.")
        done = session.rewind(said(session)[1].uuid)
        assert done.pins == ("Never push to main.",)
        session.rewind(done.left)
        assert pinned(session) == ["Never push to main."]
        assert messages(session) == before


@pytest.mark.spec("CP-30", "CP-32", "CP-36")
@pytest.mark.parametrize("form", ["full", "from_", "up_to"])
def test_a_branch_that_ends_with_a_compaction_and_a_pin_is_returned_to_as_it_was_left(desk, form):
    with desk.open(compact={"strategies": ["extractive"]}) as session:
        desk.talk(session, turns=4, size=400)
        before, second, third = messages(session), said(session)[1].uuid, said(session)[2].uuid
        done = session.compact(**{} if form == "full" else {form: third})
        assert isinstance(done, everturn.Compaction)
        session.pin("Never push to main.")
        compacted = messages(session)
        for _ in range(2):
            done = session.rewind(second)
            assert (done.pins, messages(session)) == (("Never push to main.",), before[:2])
            talk(desk, session, 9)
            assert before[-1] in [branch.uuid for branch in session.branches()]
            session.rewind(before[-1])
            assert (messages(session), pinned(session)) == (compacted, ["Never push to main."])
    with desk.open() as session:
        assert (messages(session), pinned(session)) == (compacted, ["Never push to main."])
        session.undo()
        assert (messages(session), pinned(session)) == (before, ["Never push to main."])


@pytest.mark.spec("CP-30", "CP-32", "CP-36")
def test_what_was_done_behind_a_reply_is_there_at_a_return_although_another_branch_goes_on_from_it(desk):
    with desk.open(compact={"strategies": ["extractive"]}) as session:
        desk.talk(session, turns=3, size=400)
        before, first, second = messages(session), said(session)[0].uuid, said(session)[1].uuid
        talk(desk, session, 9)
        longer = session.rewind(said(session)[-1].uuid).left
        assert isinstance(session.compact(), everturn.Compaction)
        session.pin("Never push to main.")
        compacted = messages(session)
        assert session.rewind(second).left == before[-1]
        session.rewind(before[-1])
        assert (messages(session), pinned(session)) == (compacted, ["Never push to main."])
        session.rewind(longer)
        session.rewind(first)
        # The branch was left further on now: this goes back to a reply in the middle of it.
        session.rewind(before[-1])
        assert (messages(session), pinned(session)) == (before, [])


@pytest.mark.spec("CP-36", "TR-9")
def test_a_sub_agents_file_without_agent_ids_is_the_same_after_a_compaction(desk):
    """The boundary has no parent, so it began a second agent, and the whole file was hidden."""
    desk.write(
        *(
            line
            for turn in range(4)
            for line in (
                user_line(f"Question {turn}.", isSidechain=True),
                assistant_line(text(f"Answer {turn}. " * 800), id=f"msg_{turn}", isSidechain=True),
            )
        )
    )
    with desk.open(compact={"strategies": ["extractive"]}) as session:
        assert isinstance(session.compact(), everturn.Compaction)
        talk(desk, session, 7)
        view = names(session)
    with desk.open() as session:
        assert names(session) == view


@pytest.mark.spec("CP-36")
def test_a_rewind_to_a_call_stays_in_its_turn_where_a_provider_repeats_the_ids_of_calls(desk):
    desk.write(
        user_line("Do one."),
        assistant_line(call("call_0"), id="msg_1"),
        user_line([result("call_0", "one")]),
        assistant_line(text("Done."), id="msg_2"),
        user_line("Do two."),
        assistant_line(call("call_0"), id="msg_3"),
        user_line([result("call_0", "two")]),
        assistant_line(text("Done too."), id="msg_4"),
    )
    with desk.open(tools=[tool("Read", lambda given: "x")]) as session:
        assert session.rewind("u1") == everturn.Rewind("", "u7", 5)
        assert names(session)[:3] == ["u0", "u1", "u2"]


@pytest.mark.spec("CP-36")
def test_branches_are_told_apart_where_a_provider_repeats_the_ids_of_messages(desk):
    desk.write(
        user_line("Begin."),
        assistant_line(text("Ready."), id="msg"),
        user_line("One way."),
        assistant_line(text("Gone."), id="msg"),
        user_line("Another way.", parentUuid="u1"),
        assistant_line(text("Gone too."), id="msg"),
        user_line("A third way.", parentUuid="u1"),
    )
    with desk.open() as session:
        assert [branch.uuid for branch in session.branches()] == ["u3", "u5"]
