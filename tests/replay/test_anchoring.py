"""What a recording reports where its model, its system prompt or its cache changed, and what replay makes of
it.
"""

import msgspec
import pytest
from builders import answer, assistant, call, think, user
from replay.scripts import MODEL, session, stamp, text

from everturn.history.edits import Cleared, ThinkingDropped
from everturn.measure.prefix_cache import Breakpoint, PrefixCache, PromptLayout
from everturn.replay.playing.cache_billing import CacheEvent, LastPromptForecast
from everturn.replay.playing.prepared import prepare
from everturn.replay.policies import parse_policy
from everturn.replay.simulate import simulate

HAIKU, NEWER = "claude-haiku-4-5", "claude-opus-4-7"


def reported(read, context):
    return {
        "input_tokens": 3,
        "cache_creation_input_tokens": context - read - 3,
        "cache_read_input_tokens": read,
        "output_tokens": 1,
    }


def recorded(*calls):
    """A session with a read of about 500 tokens at each call. A call is its model, the tokens that it read
    from the cache, its context, and the seconds since the last one.
    """
    records, now = [user("Please fix the parser.", uuid="prompt", timestamp=stamp(0))], 0.0
    for at, (model, read, context, gap) in enumerate(calls, start=1):
        now += gap
        asks = call(f"toolu_{at}", "Read", file_path=f"src/file_{at}.py")
        more = {"model": model, "usage": reported(read, context), "timestamp": stamp(now)}
        records.append(assistant(asks, id=f"msg_{at}", uuid=f"says-{at}", **more))
        shown = answer(f"toolu_{at}", text(500, f"word{at}"))
        records.append(user([shown], uuid=f"result-{at}", timestamp=stamp(now + 1)))
    return session(records)


def contexts(found, policy="recorded"):
    run = simulate(found, parse_policy(policy), None)
    return [each.context for each in run.calls if each.source == "main"]


SWITCHING = (
    (MODEL, 18_000, 20_000, 5),
    (MODEL, 19_997, 20_600, 5),
    # Another model, and a smaller system prompt for both from here on.
    (HAIKU, 0, 19_700, 5),
    (HAIKU, 19_697, 20_300, 5),
    (MODEL, 0, 20_900, 5),
    (MODEL, 20_897, 21_500, 5),
)


@pytest.mark.spec("RP-12")
def test_a_model_with_another_system_prompt_has_a_preamble_of_its_own_and_nothing_is_taken_for_removed():
    found = recorded(*SWITCHING)
    (anchors,) = prepare(found).anchors
    assert contexts(found) == [context for _, _, context, _ in SWITCHING]
    assert (anchors.recorded_only, anchors.unrecorded) == ({}, {})
    # The model that comes back is given what the other one was given.
    assert list(anchors.preambles) == [3]
    assert anchors.preamble.tokens - anchors.preambles[3].tokens == pytest.approx(1_500, abs=100)


@pytest.mark.spec("RP-12")
def test_under_another_policy_the_preamble_changes_at_the_same_call():
    found = recorded(*SWITCHING)
    assert contexts(found, "none") == contexts(found)
    one = parse_policy("none", model=HAIKU)
    sizes = [each.context for each in simulate(found, one, None).calls]
    # With one model for all replies there is one system prompt: the context only grows.
    assert sizes == sorted(sizes)


@pytest.mark.spec("RP-12")
def test_after_a_change_of_the_tokenizer_system_prompt_and_history_are_scaled_alike():
    before = ((MODEL, 18_000, 20_000, 5), (MODEL, 19_997, 22_000, 5), (MODEL, 21_997, 24_000, 5))
    found = recorded(*before, (NEWER, 0, 34_000, 5), (NEWER, 33_997, 36_700, 5))
    (anchors,) = prepare(found).anchors
    assert contexts(found) == [20_000, 22_000, 24_000, 34_000, 36_700]
    assert anchors.preambles[4].tokens / anchors.preamble.tokens == pytest.approx(1.36, abs=0.04)


@pytest.mark.spec("RP-12")
def test_each_part_of_a_system_prompt_that_was_read_alone_is_found_again():
    cold = 400
    found = recorded(
        (MODEL, 18_000, 20_000, 5),
        (MODEL, 19_997, 20_600, 5),
        (MODEL, 10_000, 21_200, cold),
        (MODEL, 14_000, 21_800, cold),
    )
    (anchors,) = prepare(found).anchors
    run = simulate(found, parse_policy("recorded"), None)
    assert anchors.preamble.parts == (10_000, 4_000, 4_000)
    assert [each.read for each in run.calls] == [18_000, 19_997, 10_000, 14_000]
    assert anchors.events == {}


@pytest.mark.spec("RP-12")
def test_the_preamble_of_a_file_that_begins_in_the_middle_is_no_larger_than_what_was_read():
    found = in_the_middle((MODEL, 16_000, 20_000, 5), (MODEL, 19_997, 20_600, 5))
    (anchors,) = prepare(found).anchors
    assert (anchors.preamble.tokens, anchors.begins_in_middle, anchors.events) == (16_000, True, {})


def in_the_middle(*calls):
    """The same session, but its first record continues one that is not in the file."""
    found = recorded(*calls)
    thread = found.threads[0]
    first = msgspec.structs.replace(thread.records[0], parent="not-in-the-file")
    cut = msgspec.structs.replace(thread, records=(first, *thread.records[1:]))
    return msgspec.structs.replace(found, threads=(cut,))


def usages(found, policy="recorded"):
    """What each call had and what it read."""
    run = simulate(found, parse_policy(policy), None)
    return [(each.context, each.read) for each in run.calls]


def near(calls):
    """As reported. The tokens around a message belong to the block before their end."""
    return [(context, pytest.approx(read, abs=8)) for _, read, context, _ in calls]


@pytest.mark.spec("RP-12")
def test_the_past_has_two_parts_if_the_cache_was_read_up_to_the_middle_of_it():
    calls = ((MODEL, 61_000, 82_000, 5), (MODEL, 81_997, 82_600, 5), (MODEL, 25_000, 83_200, 400))
    found = in_the_middle(*calls)
    (anchors,) = prepare(found).anchors
    assert (anchors.preamble.tokens, len(anchors.past), anchors.past[0]) == (25_000, 2, 36_000)
    assert usages(found) == near(calls)


# The third call has 30,000 tokens less, and what it read ends within the history before the file.
CLEARED = (
    (MODEL, 89_800, 90_000, 5),
    (MODEL, 89_997, 90_600, 5),
    (MODEL, 55_000, 61_200, 5),
    (MODEL, 61_197, 61_800, 5),
    (MODEL, 20_000, 62_400, 400),
)


@pytest.mark.spec("RP-12")
def test_what_was_cleared_in_the_history_before_the_file_is_taken_out_of_the_past():
    found = in_the_middle(*CLEARED)
    (anchors,) = prepare(found).anchors
    assert usages(found) == near(CLEARED)
    boundary, past = anchors.recorded_only[3]
    assert (boundary.is_boundary, past.compact_summary, len(past.blocks)) == (True, True, 2)
    # Nobody was paid for a summary, and other policies keep the past.
    run = simulate(found, parse_policy("recorded"), None)
    assert (run.totals.compactions, run.calls[2].broke) == (0, "the recorded clearing")
    assert contexts(found, "none") == sorted(contexts(found, "none"))


def thinking_aloud(*calls, loop):
    """Each call has about 600 tokens of thinking. In a loop each reads about 600 tokens after one prompt;
    otherwise a prompt has two calls, and the first reads. A call is the tokens that it read from the cache,
    and its context."""
    records = []
    for at, (read, context) in enumerate(calls, start=1):
        reads, now = loop or at % 2 == 1, 5.0 * at
        if at == 1 or (reads and not loop):
            records.append(user(f"Please fix {at}.", uuid=f"prompt-{at}", timestamp=stamp(now - 2)))
        does = call(f"toolu_{at}", "Read", file_path=f"src/file_{at}.py") if reads else "Done."
        thought = think(text(600, f"thought{at}"))
        more = {"model": MODEL, "usage": reported(read, context), "timestamp": stamp(now)}
        records.append(assistant(thought, does, id=f"msg_{at}", uuid=f"says-{at}", **more))
        if reads:
            shown = answer(f"toolu_{at}", text(600, f"word{at}"))
            records.append(user([shown], uuid=f"result-{at}", timestamp=stamp(now + 1)))
    return session(records)


def removed(found, number):
    (anchors,) = prepare(found).anchors
    return [record.edit for record in anchors.recorded_only[number] if record.edit is not None]


SHRANK = "the reported context shrank"


@pytest.mark.spec("RP-12")
def test_results_are_removed_from_the_oldest_on_after_thinking_was():
    """The positions of the results are those of the request that had the thinking."""
    calls = [(18_000, 20_000), (19_997, 21_200), (21_197, 21_810), (21_807, 23_010), (19_997, 20_700)]
    found = thinking_aloud(*calls, loop=False)
    assert removed(found, 5) == [ThinkingDropped("says-1", SHRANK), Cleared(("toolu_1",), SHRANK)]
    assert contexts(found) == [context for _, context in calls]


@pytest.mark.spec("RP-12")
def test_within_a_tool_loop_results_are_removed_and_no_thinking():
    """The loop began before the position up to which the cache was read."""
    calls = [(18_000, 20_000), (19_997, 21_200), (21_197, 22_400), (22_397, 23_600), (20_600, 23_500)]
    found = thinking_aloud(*calls, loop=True)
    assert removed(found, 5) == [Cleared((each,), SHRANK) for each in ("toolu_1", "toolu_2", "toolu_3")]
    assert contexts(found) == [context for _, context in calls]


@pytest.mark.spec("RP-12")
def test_a_context_that_falls_below_its_opening_shows_that_the_file_begins_in_the_middle():
    found = recorded(*CLEARED)
    (anchors,) = prepare(found).anchors
    assert (anchors.begins_in_middle, anchors.preamble.tokens) == (True, 20_000)
    assert contexts(found) == [context for _, _, context, _ in CLEARED]
    grown = recorded(*CLEARED[:2])
    assert not prepare(grown).begins_in_middle


@pytest.mark.spec("RP-12")
def test_without_a_report_of_the_first_call_the_opening_is_what_the_next_report_tells():
    calls = ((MODEL, 18_000, 20_000, 5), (MODEL, 19_997, 20_600, 5), (MODEL, 20_597, 21_200, 5))
    whole = recorded(*calls)
    thread = whole.threads[0]
    silent = thread.records[1]
    silent = msgspec.structs.replace(silent, reply=msgspec.structs.replace(silent.reply, usage=None))
    cut = msgspec.structs.replace(thread, records=(thread.records[0], silent, *thread.records[2:]))
    found = msgspec.structs.replace(whole, threads=(cut,))
    assert contexts(found) == [pytest.approx(20_000, abs=200), 20_600, 21_200]


def predicted_read(event, ends):
    count = len(ends)
    marks = (Breakpoint(count - 1, "5m"),)
    forecast = LastPromptForecast(PrefixCache(), finds_new=True)
    forecast.event = event
    return forecast.predict(
        PromptLayout("s", range(count), ends, range(count), marks, ends[-1] + 3), 0.0
    ).read


@pytest.mark.spec("RP-12")
@pytest.mark.parametrize(
    ("tokens", "ends", "read"),
    [
        # The breakpoint looks back over twenty of forty blocks.
        (1_500, range(100, 4_100, 100), 2_100),
        (2_500, range(100, 4_100, 100), 2_500),
        # The end of a large block is much nearer than its start.
        (9_000, (100, 10_000, 10_100), 10_000),
        (0, (100, 10_000, 10_100), 0),
    ],
)
@pytest.mark.parametrize("kind", ["lost", "found"])
def test_what_the_cache_did_is_copied_to_the_nearest_end_that_a_breakpoint_can_find(kind, tokens, ends, read):
    assert predicted_read(CacheEvent(kind, tokens), ends) == read
