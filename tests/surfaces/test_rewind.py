"""Going back to an earlier message (CP-36)."""

import pytest
from surfaces.desk import call, tool, words

import everturn


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
