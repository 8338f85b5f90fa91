"""A recorded session is measured: model, window, size and marks, each with what it rests on."""

import json

import pytest
from small_session import SmallSession, call, compacted, reading, text

from everturn.errors import InputError, UsageError
from everturn.measure.thresholds import ThresholdLevels
from everturn.session.recorded import ContextWindow, measure_transcript, open_session
from everturn.session.reopen import reopen_session
from everturn.wire.claude_code_reader import parse_session_file


def opened(session: SmallSession, **settings):
    return measure_transcript(parse_session_file(session.to_bytes()), **settings)


def with_context(model: str, *contexts: int) -> SmallSession:
    session = SmallSession(model).human("Hello.")
    for number, context in enumerate(contexts):
        session.reply(f"m{number}", text("Hi."), read=context).human("More.")
    return session


def test_a_session_knows_its_model_its_size_and_its_levels(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(reading().to_bytes())
    session = open_session(tmp_path / "a.jsonl")
    assert (session.model_id, session.model.display_name, session.guess) == (
        "claude-opus-4-5-20251101",
        "Claude Opus 4.5",
        "",
    )
    assert session.size.tokens == 40_100
    assert session.levels == ThresholdLevels(
        percent_left=76, above_warning=False, above_error=False, above_auto=False, at_blocking=False
    )
    assert [message.role for message in session.messages] == ["user", "assistant"] * 4
    assert session.source == str(tmp_path / "a.jsonl")


def test_a_compaction_that_was_taken_back_leaves_no_size_behind(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(compacted().human("More.").reply("late", text("Yes."), read=9_000).to_bytes())
    assert open_session(path).size.tokens == 9_000
    with reopen_session(path) as session:
        session.undo()
        live = session.context().size
    assert open_session(path).size == live
    assert live.tokens > 100_000


@pytest.mark.parametrize(
    ("session", "given", "window"),
    [
        (
            with_context("claude-opus-4-5-20251101", 900),
            None,
            ContextWindow(200_000, "model", "the window of Claude Opus 4.5"),
        ),
        (with_context("claude-opus-4-5", 900), 64_000, ContextWindow(64_000, "given", "given by you")),
        (
            with_context("claude-opus-4-6[1m]", 900),
            None,
            ContextWindow(1_000_000, "name", "the model is named claude-opus-4-6[1m]"),
        ),
        (
            with_context("claude-sonnet-4-5", 900, 200_001),
            None,
            ContextWindow(1_000_000, "context", "a context of 200,001 tokens was reported"),
        ),
        (
            with_context("claude-opus-4-6", 900),
            None,
            ContextWindow(1_000_000, "model", "the window of Claude Opus 4.6"),
        ),
        (
            with_context("claude-opus-4-6", 900).boundary(166_000).summary("So far."),
            None,
            ContextWindow(200_000, "compaction", "it was compacted automatically at 166,000 tokens"),
        ),
        (
            with_context("claude-opus-4-6", 900).boundary(166_000, "manual").summary("So far."),
            None,
            ContextWindow(1_000_000, "model", "the window of Claude Opus 4.6"),
        ),
        (
            with_context("gpt-9", 900),
            None,
            ContextWindow(200_000, "guess", "'gpt-9' is not in the table of models"),
        ),
        (
            SmallSession().human("Hello."),
            None,
            ContextWindow(200_000, "guess", "no reply in this session names a model"),
        ),
    ],
)
def test_the_window_is_told_by_the_strongest_evidence(session, given, window):
    assert opened(session, window=given).window == window


def test_an_unknown_model_is_measured_as_the_nearest_and_says_so():
    session = opened(with_context("claude-opus-99", 900))
    assert session.window.basis == "guess"
    assert session.guess == f"'claude-opus-99' is not in the table of models; measured as {session.model.id}"


def test_a_window_without_room_is_refused():
    with pytest.raises(UsageError, match="0 was given"):
        opened(reading(), window=0)


def test_what_the_records_do_not_hold_is_told_by_the_first_call():
    session = SmallSession().human("four" * 100).reply("m1", text("Hi."), plain=18_100)
    # 400 characters are 100 tokens.
    assert opened(session).fixed == 18_000


def test_a_small_model_asked_first_does_not_tell_the_system_prompt_of_the_large_one():
    session = SmallSession("claude-haiku-4-5").human("four" * 100).reply("m0", text("Title"), plain=900)
    session.model = "claude-opus-4-5"
    assert opened(session.reply("m1", text("Hi."), plain=18_101)).fixed == 18_000


def test_a_slice_of_a_session_does_not_tell_what_its_system_prompt_is():
    session = reading()
    session.lines[0]["parentUuid"] = "before"
    found = opened(session)
    assert found.fixed is None
    assert found.remarks == ("the file begins in the middle of a conversation; earlier messages are missing",)


def test_right_after_a_compaction_the_system_prompt_still_counts():
    session = SmallSession().human("Hi.").reply("m1", text("Hi."), plain=30_001)
    session.boundary(160_000).summary("four" * 300)
    found = opened(session)
    # 30,000 of prompt, as reported, and 300 of summary, padded by a third.
    assert (found.size.basis, found.size.tokens) == ("estimate", 30_400)


def test_results_cleared_before_a_boundary_stay_cleared_in_what_was_kept():
    session = SmallSession().human("Hi.").reply("m1", call("c1", "Bash", command="ls"), plain=100)
    session.result("c1", "four" * 1000).cleared("c1", before=1, saved=1).boundary(9)
    session.lines[-1]["compactMetadata"]["preservedSegment"] = {
        "headUuid": "u1",
        "anchorUuid": "u4",
        "tailUuid": "u2",
    }
    session.summary("So far.")
    found = opened(session)
    assert [record.uuid for record in found.view.records] == ["u4", "u1", "u2", "u5"]
    assert found.size.rough_tail < 200


def test_a_sub_agent_is_found_by_the_beginning_of_its_id():
    main = reading()
    data = main.to_bytes()
    for name in ("abc1", "abd2"):
        side = SmallSession(agent=name).human("Look.").reply(f"m-{name}", text("Found."), plain=5_000)
        data += side.to_bytes()
    transcript = parse_session_file(data)
    assert measure_transcript(transcript).thread.agent == ""
    assert measure_transcript(transcript, agent="abc").thread.agent == "abc1"
    assert measure_transcript(transcript, agent="abd2").size.reported == 5_000
    with pytest.raises(InputError, match="2 sub-agents have ids that begin with 'ab': abc1, abd2"):
        measure_transcript(transcript, agent="ab")
    with pytest.raises(InputError, match="No sub-agent 'x' found in this file; it has abc1, abd2"):
        measure_transcript(transcript, agent="x")
    with pytest.raises(InputError, match="holds only the main conversation"):
        opened(main, agent="x")


def test_a_file_of_several_sub_agents_shows_the_longest_and_says_so():
    short = SmallSession(agent="a1").human("Look.")
    long = SmallSession(agent="a2").human("Look.").human("Again.")
    found = measure_transcript(parse_session_file(short.to_bytes() + long.to_bytes()))
    assert found.thread.agent == "a2"
    assert found.remarks == ("the file holds only sub-agents; showing the longest, a2, of 2",)


def test_an_empty_session_can_be_measured():
    found = measure_transcript(parse_session_file(b""))
    assert (found.size.tokens, found.levels.percent_left, found.messages) == (0, 100, ())


def test_a_compacted_session_has_a_view_for_each_stretch():
    found = opened(compacted())
    assert [len(view.records) for view in (*found.views_before, found.view)] == [5, 5]
    assert json.loads(found.view.records[1].raw)["isCompactSummary"] is True
