"""What replaced a conversation and was no summary."""

import pytest
from incidents.scene import ASKS_FOR_A_SUMMARY, SUMMARY, Scene, goes_on, words_in_view

from everturn.decide.compact.values import Compaction, CompactionFailed
from everturn.history.edits import Compacted
from everturn.session.upstream import RawResponse, UpstreamError

MODELS_ONLY = ("fork", "direct")


def spoiled(scene: Scene, *replies: str | dict, **how: object) -> tuple[object, bytes, bytes]:
    """A conversation, and a compaction in which the model answers like this; the file before and after."""
    with scene.open(ways=MODELS_ONLY, **how) as session:
        scene.talk(session)
        before = scene.path.read_bytes()
        scene.twin.script(*replies)
        made = session.compact()
        assert "Question 0" in words_in_view(session)
        return made, before, scene.path.read_bytes()


def test_the_whole_history_was_replaced_by_the_text_of_an_error(scene: Scene):
    """On failure the summarizer returned its error as text, and the text became the history
    (langchain#38867)."""
    error = "Error generating summary: Connection aborted by peer."
    made, before, after = spoiled(scene, *[error] * 4)
    assert isinstance(made, CompactionFailed)
    assert before == after


def test_195_messages_became_a_network_error(scene: Scene):
    """195 messages were replaced by one line of a network stack (smart-second-brain#435)."""
    made, before, after = spoiled(scene, *["API Error: 502 Bad Gateway (nginx) - request failed"] * 4)
    assert isinstance(made, CompactionFailed)
    assert before == after


def test_history_was_replaced_though_no_model_had_been_asked(scene: Scene):
    """Nothing was left to summarize in the window, and history was replaced all the same
    (langchain#39261)."""
    with scene.open(ways=MODELS_ONLY) as session:
        scene.twin.script("Hello.")
        session.send("Hello. " * 6_000)
        scene.before = lambda body: _dead(body)
        assert isinstance(session.compact(), CompactionFailed)
        assert not any(isinstance(each.edit, Compacted) for each in session.conversation.log.records)


def _dead(body: bytes) -> None:
    if ASKS_FOR_A_SUMMARY in body:
        raise UpstreamError(0, "connection_error", "Connection error.")


def test_the_summarizer_was_given_tools_and_called_one(scene: Scene):
    """Tools were forwarded to the summarizer; it called one, and the summary was empty (senpi#1067)."""
    call = {"content": [{"type": "tool_use", "name": "Read", "input": {}}]}
    made, before, after = spoiled(scene, *[call] * 4)
    assert isinstance(made, CompactionFailed)
    assert before == after


@pytest.mark.parametrize("empty", [" \n ", "<summary></summary>", "<analysis>Let me think.</analysis>"])
def test_a_summary_without_a_word_was_taken(scene: Scene, empty: str):
    """The model answered with nothing visible, and that was the summary (cc#14852)."""
    made, before, after = spoiled(scene, *[empty if empty.strip() else {"content": []}] * 4)
    assert isinstance(made, CompactionFailed)
    assert before == after


def test_a_refusal_on_grounds_of_policy_became_the_summary(scene: Scene):
    """The model refused, and its refusal stood where the conversation had been (cc#5897)."""
    refusal = {"content": "I can't help with summarizing this conversation.", "stop_reason": "refusal"}
    made, before, after = spoiled(scene, *[refusal] * 4)
    assert isinstance(made, CompactionFailed)
    assert before == after


def test_a_usage_limit_in_the_middle_left_half_a_compaction(scene: Scene):
    """The limit was reached while the summary was written; the session was left between two states
    (cc#60542)."""
    with scene.open(ways=MODELS_ONLY) as session:
        scene.talk(session)
        view, before = words_in_view(session), scene.path.read_bytes()
        scene.twin.faults(
            *[{"kind": "rate_limit", "message": "You've hit your limit; it resets at 3am."}] * 2
        )
        made = session.compact()
        assert isinstance(made, CompactionFailed)
        assert "resets at 3am" in made.why
        assert (words_in_view(session), scene.path.read_bytes()) == (view, before)
    goes_on(scene)


def test_compacting_failed_and_an_older_summary_was_applied(scene: Scene):
    """It said that it had failed, and a stale summary was in force afterwards (oh-my-pi#275)."""
    with scene.open(ways=MODELS_ONLY) as session:
        scene.talk(session)
        scene.twin.script(SUMMARY)
        assert isinstance(session.compact(), Compaction)
        scene.talk(session, 2)
        view = words_in_view(session)
        scene.before = _dead
        assert isinstance(session.compact(), CompactionFailed)
        assert words_in_view(session) == view
    with scene.open() as session:
        assert words_in_view(session) == view


@pytest.mark.parametrize("fault", ["cut_stream", "stream_error", "garbage"])
def test_a_stream_that_broke_off_was_taken_for_a_whole_summary(scene: Scene, fault: str):
    """The stream of the summary was cut, or ended in an error behind a 200; what had come until then was
    used (codex#22335, codex#13906, codex#24544, litellm#4562)."""
    with scene.open(ways=MODELS_ONLY, client=scene.twin.client(max_retries=0), send=None) as session:
        scene.talk(session)
        before = scene.path.read_bytes()
        scene.twin.script(*[SUMMARY] * 3)
        scene.twin.faults(*[{"kind": fault, "after_events": 4, "delay_s": 0}] * 3)
        assert isinstance(session.compact(), CompactionFailed)
        assert scene.path.read_bytes() == before


def test_a_summary_that_hit_its_output_limit_was_taken_as_whole(scene: Scene):
    """The summary ended in the middle of a sentence because its output was used up (codex#22309)."""
    cut = {"content": "<summary>1. The login test waits for the tok", "stop_reason": "max_tokens"}
    made, before, after = spoiled(scene, *[cut] * 4)
    assert isinstance(made, CompactionFailed)
    assert before == after


def test_a_summary_was_larger_than_what_it_replaced(scene: Scene):
    """The model repeated the conversation instead of shortening it, and the context grew
    (gemini-cli PR#7047, gemini-cli#15225)."""
    echo = "<summary>1. " + "The question was asked, and answered at length. " * 3_000 + "</summary>"
    made, before, after = spoiled(scene, *[echo] * 4)
    assert isinstance(made, CompactionFailed)
    assert before == after


def test_a_page_of_a_proxy_came_instead_of_a_message(scene: Scene):
    """A gateway answered 200 with a page of its own (litellm#39703, litellm#29187)."""
    page = RawResponse(b"<html><head><title>502 Bad Gateway</title></head></html>")

    def send(body: bytes, betas: object) -> RawResponse:
        return page if ASKS_FOR_A_SUMMARY in body else scene.send(body, ())

    with scene.open(ways=MODELS_ONLY, send=send) as session:
        scene.talk(session)
        before = scene.path.read_bytes()
        made = session.compact()
        assert isinstance(made, CompactionFailed)
        assert "502 Bad Gateway" in made.why
        assert scene.path.read_bytes() == before
