"""No way out: a conversation too long to be sent, and too long to be summarized."""

from incidents.scene import SUMMARY, Scene, calls, goes_on, tool, words_in_view
from small_session import SmallSession, text

from everturn.decide.compact.values import Compaction, CompactionSkipped
from everturn.decide.events import CompactionDone


def overfull(tokens: int = 260_000, reported: int = 260_000) -> SmallSession:
    """Far more than the window of 200K, in many turns; and what the provider said it was at the end."""
    session = SmallSession(model="claude-haiku-4-5")
    turns = 40
    for number in range(turns):
        session.human(f"Question {number}. " + "word " * (tokens // turns // 2))
        session.reply(
            f"m{number}",
            text(f"Answer {number}. " + "word " * (tokens // turns // 2)),
            plain=reported * (number + 1) // turns,
        )
    return session


def test_the_summary_request_was_itself_too_long(scene: Scene):
    """Compacting failed because the conversation was too long to be compacted (cc#23047, cc#23809,
    cc#26317, cc#26518, gemini-cli#7784, letta#3279)."""
    with scene.left(overfull()).open() as session:
        made = session.compact()
        assert isinstance(made, Compaction)
        assert made.tokens_after < 50_000
    assert scene.asked_for_summaries <= 3
    goes_on(scene)


def test_too_large_to_resume_and_had_to_be_resumed_to_be_compacted(scene: Scene):
    """A session was too large to be resumed, and only a resumed one could be compacted (cc#14472,
    goose#8642)."""
    with scene.left(overfull()).open() as session:
        assert session.send("Good morning.").text
        assert session.context().size.tokens < session.context().limits.auto
    assert [event.trigger for event in scene.told(CompactionDone)] == ["auto"]


def test_the_provider_said_too_long_though_our_count_said_it_fits(scene: Scene):
    """The estimate was below the mark and the API refused; there was no second way (cc#2964, cc#8330,
    openclaw#4810)."""
    with scene.open() as session:
        scene.talk(session, 4)
        scene.twin.faults({"kind": "prompt_too_long", "vendor": "anthropic"})
        scene.twin.script(SUMMARY, "It fits now.")
        assert session.send("One more.").text == "It fits now."
        shown = words_in_view(session)
    assert "waiting for the token" in shown
    # The question itself was not summarized: it stands behind the summary as it was asked.
    assert shown.endswith("\nOne more.\nIt fits now.")


def test_truncation_left_no_marker_so_every_restart_met_the_overflow(scene: Scene):
    """Room was made in memory only; each restart replayed the overflow (opencrabs#1291, openclaw#5034)."""
    with scene.left(overfull()).open() as session:
        session.send("Hello.")
        small = session.context().size.tokens
    asked = scene.asked_for_summaries
    goes_on(scene)
    with scene.open() as session:
        assert session.context().size.tokens < small + 2_000
    assert scene.asked_for_summaries == asked


def test_system_prompt_and_tools_alone_filled_the_window(scene: Scene):
    """Tools and instructions were larger than the window, and every turn asked for a summary that could
    not help (opencode PR#48828, langchain#34664)."""
    with scene.open(system="You must know this. " * 12_000, window=40_000) as session:
        session.send("Hello.")
        compacted = session.send("Are you there?").exchange.turn.compacted
    assert isinstance(compacted, CompactionSkipped)
    assert "no summary can help" in compacted.why
    assert scene.asked_for_summaries == 0


def test_one_giant_result_refilled_the_context_in_one_step(scene: Scene):
    """A single result of hundreds of thousands of tokens came right after a compaction (cc#8092, cc#74048,
    cc#6434)."""
    giant = tool("Read", lambda _: "x = 1  # a line of code\n" * 60_000, "file_path")
    scene.twin.script(calls("Read", file_path="a.py"), "That was long.", "Still here.")
    with scene.open(tools=[giant]) as session:
        assert session.send("Read the generated file.").text == "That was long."
        assert session.context().size.tokens < session.context().limits.auto
        assert session.send("And?").text == "Still here."
    (kept,) = (scene.folder / "session.jsonl.files").iterdir()
    assert len(kept.read_bytes()) == len("x = 1  # a line of code\n") * 60_000


def test_output_and_input_together_did_not_fit_the_window(scene: Scene):
    """The prompt fitted, but not with the output that was asked for (OpenHands#9937, cc#3274)."""
    with scene.open() as session:
        scene.talk(session, 4)
        words = "input length and `max_tokens` exceed context limit: 190000 + 16000 > 200000, decrease input"
        scene.twin.faults({"kind": "prompt_too_long", "message": words})
        scene.twin.script(SUMMARY, "Now it fits.")
        assert session.send("One more.").text == "Now it fits."


def test_a_gateway_that_counted_nothing_hid_that_the_window_was_full(scene: Scene):
    """Usage came back as next to nothing, so nobody compacted in time; and when the API said too long, no
    result was small enough for that number (gemini-cli#14766, opencode#27924)."""
    with scene.left(overfull(reported=100)).open() as session:
        assert session.context().size.tokens < 1_000
        assert session.send("Hello.").text
    assert [event.trigger for event in scene.told(CompactionDone)] == ["auto"]
