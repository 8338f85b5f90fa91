"""A session under a policy: what is sent, what is billed, and what the recording has to say about it."""

import pickle
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import msgspec
import pytest
from builders import assistant, boundary, summary, think, user
from builders import call as tool_call
from replay.scripts import HEAD, MODEL, START, session, stamp, steps, text, usage

from everturn.decide.compact.settings import CompactSettings
from everturn.decide.effects import ModelAnswer
from everturn.history.blocks import text_block
from everturn.history.edits import Cleared
from everturn.history.records import SYNTHETIC, Usage
from everturn.measure.model_table import find_model
from everturn.replay.playing.counting import ScaledCosts, sent_blocks
from everturn.replay.playing.player import FETCHING_TOKENS
from everturn.replay.playing.prepared import index_uses, prepare
from everturn.replay.policies import REPLAY_POLICIES, parse_policy, use_summarizer
from everturn.replay.sessions import read_session
from everturn.replay.simulate import simulate
from everturn.twin.build import build_twin
from everturn.twin.clock import VirtualClock
from everturn.twin.count import make_block_counter
from everturn.twin.options import TwinOptions
from everturn.twin.upstream import make_twin_send

EVERY = [name for name in REPLAY_POLICIES if name != "clears-only"]
RATES = find_model(MODEL).rates(on=START.date(), prompt_tokens=0)
RECORDED = Path(__file__).parent.parent / "recorded"


def run_of(made, name, *, uses=None, **changes):
    return simulate(made, msgspec.structs.replace(parse_policy(name), **changes), uses)


def main_calls(run):
    return [call for call in run.calls if call.source == "main"]


def mixed():
    """Forty calls that fill a small window twice, with a pause in the middle."""
    return session(steps(*[text(1_500, f"word{at}") for at in range(40)], gaps={21: 4_000}))


# ── what is sent and billed ──────────────────────────────────────────────────────────────────────


def through_a_twin(made, name, **changes):
    """Every request of a run, sent to a twin at its time: what was predicted beside what it billed."""
    requests = []
    simulate(
        made,
        msgspec.structs.replace(parse_policy(name), **changes),
        index_uses(made),
        observer=lambda call, request, tokens: requests.append((call, request)),
    )
    prepared = prepare(made)
    ours = prepared.costs(0, MODEL, find_model(MODEL))
    theirs = make_block_counter(find_model(MODEL), TwinOptions())

    def count(block, model):
        bare = {name: value for name, value in block.body.items() if name != "cache_control"}
        known = ours._counted.get(msgspec.json.encode(bare))
        return theirs(block) if known is None else known

    twin = build_twin(options=TwinOptions(counter=count, foreign_signatures="accept"))
    send = make_twin_send(twin)
    for call, request in requests:
        assert isinstance(twin.clock, VirtualClock)
        twin.clock.set(call.at)
        body = msgspec.structs.replace(request, settings={**request.settings, "max_tokens": 100})
        send(body.to_bytes(), ())
        yield call, twin.ledger()[-1]["usage"]


@pytest.mark.spec("RP-4")
@pytest.mark.parametrize("name", [*EVERY, "claude-code+1h", "none+refresh"])
def test_every_call_is_billed_as_a_twin_bills_its_request(name):
    billed = list(through_a_twin(mixed(), name, window=60_000))
    assert len(billed) >= 10
    for call, paid in billed:
        assert (call.read, call.plain, call.write_5m, call.write_1h) == (
            paid["cache_read_input_tokens"],
            paid["input_tokens"],
            paid["cache_creation"]["ephemeral_5m_input_tokens"],
            paid["cache_creation"]["ephemeral_1h_input_tokens"],
        )


def test_the_policies_above_did_all_there_is_to_do():
    """Else the comparison with a twin would say little."""
    uses = index_uses(mixed())
    sources = {
        (name, call.source)
        for name in EVERY
        for call in run_of(mixed(), name, uses=uses, window=60_000).calls
    }
    assert {("claude-code", "compact"), ("summarize-85", "compact"), ("masking", "main")} <= sources


@pytest.mark.spec("RP-4")
def test_the_recorded_reply_is_appended_and_its_output_billed():
    made = session(steps("short"))
    first, last = run_of(made, "none").calls
    costs = ScaledCosts(find_model(MODEL))
    spoken = [
        costs.all(sent_blocks([record])) for record in made.threads[0].records if record.kind == "assistant"
    ]
    assert [first.output, last.output] == spoken
    assert first.context == HEAD
    shown = costs.all(sent_blocks(made.threads[0].records[1:3]))
    assert last.context == HEAD + shown + 2 * costs.turn
    assert last.dollars == (
        last.read * RATES.read
        + last.write_5m * RATES.write_5m
        + last.plain * RATES.input
        + last.output * RATES.output
    ) / Decimal(1_000_000)


@pytest.mark.spec("RP-11")
def test_equal_input_gives_equal_numbers_also_after_a_journey():
    made = mixed()
    for name in REPLAY_POLICIES:
        once = simulate(made, parse_policy(name), index_uses(made))
        again = pickle.loads(pickle.dumps(made))
        assert simulate(again, parse_policy(name), pickle.loads(pickle.dumps(index_uses(again)))) == once


@pytest.mark.spec("RP-11")
def test_the_order_of_policies_does_not_matter():
    made, uses = mixed(), index_uses(mixed())
    forwards = {name: simulate(made, parse_policy(name), uses) for name in REPLAY_POLICIES}
    backwards = {name: simulate(made, parse_policy(name), uses) for name in reversed(REPLAY_POLICIES)}
    assert forwards == backwards


def test_a_run_survives_being_stored():
    run = simulate(mixed(), parse_policy("masking"), index_uses(mixed()))
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(run), type=type(run)) == run


# ── time ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("RP-2")
def test_a_call_is_made_at_its_recorded_time():
    run = run_of(session(steps("one", "two", gaps={2: 50})), "none")
    assert [call.at - START for call in run.calls] == [timedelta(seconds=at) for at in (20, 70, 90)]


@pytest.mark.spec("RP-2")
@pytest.mark.parametrize("year", [2024, 2026, 2031])
def test_the_year_of_a_recording_does_not_matter_to_its_pauses(year):
    records = [
        msgspec.structs.replace(record, timestamp=record.timestamp.replace("2026", str(year)))
        for record in steps("one", "two", gaps={2: 400})
    ]
    run = run_of(session(records), "none")
    assert [call.at.year for call in run.calls] == [year] * 3
    assert [call.broke for call in run.calls] == ["", "cache expired (idle more than 5 min)", ""]


@pytest.mark.spec("RP-2")
def test_time_never_runs_backwards():
    records = steps("one", "two")
    records[3] = msgspec.structs.replace(records[3], timestamp=stamp(-5_000))
    times = [call.at for call in run_of(session(records), "claude-code").calls]
    assert times == sorted(times)


@pytest.mark.spec("RP-2")
def test_where_no_times_are_recorded_a_stated_gap_is_taken():
    records = [msgspec.structs.replace(record, timestamp="") for record in steps("one", "two")]
    run = run_of(session(records), "none")
    gaps = [later.at - call.at for call, later in zip(run.calls, run.calls[1:], strict=False)]
    assert gaps == [timedelta(seconds=30)] * 2


def test_a_pause_beyond_the_lifetime_pays_for_the_prefix_again():
    made = session(steps(text(2_000), "short", gaps={3: 301}))
    short, long = run_of(made, "none").calls[-1], run_of(made, "none+1h").calls[-1]
    assert (short.read, short.broke) == (0, "cache expired (idle more than 5 min)")
    assert (long.read > HEAD, long.broke) == (True, "")


# ── the window ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("RP-8")
def test_no_management_ends_at_the_window_and_costs_what_it_cost_until_then():
    made = session(steps(*[text(5_000)] * 10))
    run = run_of(made, "none", window=40_000)
    whole = run_of(made, "none")
    assert run.calls == whole.calls[: len(run.calls)]
    refused = whole.calls[len(run.calls)]
    assert run.calls[-1].context <= 40_000 < refused.context
    assert run.ended_early == (
        f"main: call {refused.number} of 11 has {refused.context:,} tokens, more than the window of 40,000"
    )
    assert whole.ended_early == ""


@pytest.mark.spec("RP-5", "BY-2")
def test_a_compaction_is_billed_like_a_model_call():
    made = session(steps(*[text(5_000, f"word{at}") for at in range(5)]))
    seen = {}

    def observer(call, request, tokens):
        seen[call] = request, sum(tokens.counts)

    run = simulate(made, parse_policy("claude-code", window=60_000), None, observer=observer)
    (summary_call,) = [call for call in run.calls if call.source == "compact"]
    at = run.calls.index(summary_call)
    before, after = run.calls[at - 1], run.calls[at + 1]
    # It reads what the last request wrote, and pays its own words and what came since in full.
    assert summary_call.read == before.read + before.write_5m
    assert summary_call.plain == seen[summary_call][1] - summary_call.read
    assert (summary_call.write_5m, summary_call.write_1h) == (0, 0)
    # Its output is the text that stands in the next request.
    shown = "".join(block.raw.decode() for message in seen[after][0].messages for block in message.blocks)
    assert "Please fix the parser in src/parser.py." in shown
    assert 100 < summary_call.output < 10_000
    assert summary_call.dollars == (
        summary_call.read * RATES.read + summary_call.plain * RATES.input + summary_call.output * RATES.output
    ) / Decimal(1_000_000)
    assert (after.context < before.context, after.broke) == (True, "our own compaction")
    assert run.totals.spent.summaries == summary_call.dollars
    assert run.ended_early == ""


@pytest.mark.spec("RP-5")
def test_a_real_model_can_write_the_summaries():
    made = session(steps(*[text(5_000, f"word{at}") for at in range(5)]))
    words = "The user wants the parser fixed. Five files were read and nothing was changed in them so far."
    asked = []

    def writer(request):
        asked.append(request)
        return ModelAnswer((text_block(words),), "end_turn", Usage())

    run = simulate(made, parse_policy("claude-code", window=60_000), None, writer=writer)
    (written,) = [call for call in run.calls if call.source == "compact"]
    assert len(asked) == 1
    assert written.output == ScaledCosts(find_model(MODEL)).block(text_block(words))


@pytest.mark.spec("RP-5")
def test_every_call_of_a_real_model_is_billed_also_where_its_words_are_refused():
    made = session(steps(*[text(5_000, f"word{at}") for at in range(5)]))
    asked = []

    def writer(request):
        asked.append(request)
        return ModelAnswer((text_block("No."),), "end_turn", Usage())

    run = simulate(made, parse_policy("claude-code", window=60_000), None, writer=writer)
    assert [call.source for call in run.calls].count("compact") == len(asked) == CompactSettings().calls
    assert run.ended_early == ""


@pytest.mark.spec("RP-5")
def test_summaries_by_another_model_are_sent_to_it_and_priced_as_its_own():
    made = session(steps(*[text(5_000, f"word{at}") for at in range(5)]))
    words = "The user wants the parser fixed. Five files were read and nothing was changed in them so far."
    asked = []

    def writer(request):
        asked.append(request)
        return ModelAnswer((text_block(words),), "end_turn", Usage())

    policy = use_summarizer(parse_policy("claude-code", window=60_000), "claude-haiku-4-5")
    run = simulate(made, policy, None, writer=writer)
    (written,) = [call for call in run.calls if call.source == "compact"]
    (request,) = asked
    haiku = find_model("claude-haiku-4-5")
    rates = haiku.rates(on=written.at.date(), prompt_tokens=written.context)
    assert (request.model, written.model) == ("claude-haiku-4-5", haiku.id)
    assert (written.read, written.write_5m, written.write_1h) == (0, 0, 0)
    assert written.dollars == (written.plain * rates.input + written.output * rates.output) / Decimal(
        1_000_000
    )
    assert "summaries by claude-haiku-4-5, asked directly" in run.notes


@pytest.mark.parametrize("name", ["none", "recorded", "sliding-window"])
def test_a_policy_without_summaries_of_its_own_needs_no_summarizer(name):
    assert use_summarizer(parse_policy(name), "claude-haiku-4-5") == parse_policy(name)


def test_a_first_request_beyond_the_window_ends_the_session_also_with_compaction():
    made = session(steps("short"))
    run = run_of(made, "claude-code", window=9_000)
    assert (main_calls(run), run.ended_early[:28]) == ([], "main: call 1 of 2 has 10,000")


# ── the recording's own edits ────────────────────────────────────────────────────────────────────


def compacted_session():
    first = steps(text(4_000), text(4_000))
    edge = boundary(uuid="edge", tokens=150_000)
    told = summary("The parser was fixed.", uuid="told", parent="edge")
    rest = steps("short", start=3)
    stamped = [msgspec.structs.replace(record, timestamp=stamp(100 + at)) for at, record in enumerate(rest)]
    return session([*first, edge, told, *stamped[1:]])


@pytest.mark.spec("RP-8")
def test_the_recorded_policy_compacts_where_the_recording_did_and_pays_for_it():
    run = run_of(compacted_session(), "recorded")
    assert [call.source for call in run.calls] == ["main", "main", "main", "compact", "main", "main"]
    before, written, after = run.calls[2:5]
    assert (written.read, written.at) == (before.read + before.write_5m, before.at)
    assert written.output == ScaledCosts(find_model(MODEL)).block(
        next(r for r in compacted_session().threads[0].records if r.compact_summary).blocks[0]
    )
    assert after.context < before.context
    assert after.broke == "the recorded compaction"


@pytest.mark.spec("RP-4")
def test_under_another_policy_the_recorded_compaction_never_happened():
    run = run_of(compacted_session(), "none")
    contexts = [call.context for call in run.calls]
    assert [call.source for call in run.calls] == ["main"] * 5
    assert contexts == sorted(contexts)


@pytest.mark.spec("RP-8")
def test_the_recorded_policy_clears_what_the_recording_cleared_and_nothing_else():
    records = steps(text(4_000), text(4_000), "short")
    edit = Cleared(("toolu_1",), "recorded")
    cleared = msgspec.structs.replace(boundary(uuid="edge"), subtype="microcompact_boundary", edit=edit)
    made = session([*records[:5], cleared, *records[5:]])
    plain, under = run_of(made, "none"), run_of(made, "recorded")
    saved = [a.context - b.context for a, b in zip(plain.calls, under.calls, strict=True)]
    assert saved[:2] == [0, 0]
    assert all(each > 3_000 for each in saved[2:])
    assert under.calls[2].broke == "the recorded clearing"


@pytest.mark.spec("RP-8")
def test_the_recorded_policy_writes_for_as_long_as_the_recording_did():
    records = steps("one", "two")
    hour = {**usage(HEAD), "cache_creation": {"ephemeral_1h_input_tokens": HEAD - 3}}
    reply = msgspec.structs.replace(records[1].reply, usage=msgspec.convert(hour, Usage))
    records[1] = msgspec.structs.replace(records[1], reply=reply)
    totals = run_of(session(records), "recorded").totals
    assert (totals.write_5m, totals.write_1h > HEAD) == (0, True)
    assert run_of(session(records), "none").totals.write_1h == 0


def test_words_that_no_model_said_are_no_call():
    records = steps("one")
    synthetic = assistant("No response requested.", id="x", uuid="x", model=SYNTHETIC, timestamp=stamp(500))
    assert len(run_of(session([*records, synthetic]), "none").calls) == 2


# ── sub-agents ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("RP-4")
def test_each_thread_is_a_conversation_of_its_own():
    alone = run_of(session(steps("one", "two")), "none")
    both = run_of(session(steps("one", "two"), steps("one", "two")), "none")
    assert [call.thread for call in both.calls] == ["main"] * 3 + ["agent1"] * 3
    numbers = [(call.read, call.write_5m, call.plain, call.output) for call in both.calls]
    # Equal words, and nothing of one thread is read by the other.
    assert numbers[:3] == numbers[3:]
    assert numbers[:3] == [(call.read, call.write_5m, call.plain, call.output) for call in alone.calls]


# ── refreshing ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("RP-8")
def test_a_prefix_is_kept_alive_through_a_short_pause_and_that_is_billed():
    made = session(steps(text(20_000), "short", gaps={3: 720}))
    run, without = run_of(made, "none+refresh"), run_of(made, "none")
    refreshes = [call for call in run.calls if call.source == "refresh"]
    held = run.calls[1].read + run.calls[1].write_5m
    assert [(call.read, call.write_5m, call.output) for call in refreshes] == [(held, 0, 0)] * 2
    assert [(call.at - run.calls[1].at).total_seconds() for call in refreshes] == [290, 580]
    last = main_calls(run)[-1]
    assert (last.read, last.broke) == (held, "")
    assert run.totals.spent.refresh == sum(call.dollars for call in refreshes)
    assert run.totals.dollars < without.totals.dollars


@pytest.mark.spec("RP-8")
def test_a_prefix_is_left_to_lapse_where_keeping_it_costs_more_than_writing_it():
    made = session(steps(text(20_000), "short", gaps={3: 3 * 3_600}))
    assert run_of(made, "none+refresh").calls == run_of(made, "none").calls


@pytest.mark.spec("RP-8")
def test_who_does_not_know_how_long_a_pause_is_stops_when_it_has_spent_what_writing_costs():
    made = session(steps(text(20_000), "short", gaps={3: 3 * 3_600}))
    run, without = run_of(made, "none+refresh-blind"), run_of(made, "none")
    refreshes = [call for call in run.calls if call.source == "refresh"]
    held = run.calls[1].read + run.calls[1].write_5m
    again = held * (RATES.write_5m - RATES.read) / Decimal(1_000_000)
    spent = sum(call.dollars for call in refreshes)
    # Eleven in the pause, and eleven more after the last call, which nobody knows to be the last.
    assert len(refreshes) == 22
    in_pause = sum(call.dollars for call in refreshes[:11])
    assert in_pause < again <= in_pause + refreshes[0].dollars
    assert run.totals.dollars == without.totals.dollars + spent
    short = session(steps(text(20_000), "short", gaps={3: 720}))
    known = run_of(short, "none+refresh").calls
    assert run_of(short, "none+refresh-blind").calls[: len(known)] == known


# ── refetches ───────────────────────────────────────────────────────────────────────────────────────


FIRST = "def read_everything_at_once(path_of_the_file):\n    return open(path_of_the_file).read()\n"


def quoting(model=MODEL):
    changes = {"file_path": "src/file_1.py", "old_string": FIRST, "new_string": "pass"}
    edits = tool_call("toolu_edit", "Edit", **changes)
    return assistant(edits, id="msg_edit", uuid="says-edit", model=model, timestamp=stamp(400))


def forgetful():
    """Twelve results, and a reply that quotes the first of them."""
    records = steps(FIRST + text(3_000), *[text(50, f"word{at}") for at in range(11)])
    return session([*records, user("Now change it.", uuid="again", timestamp=stamp(390)), quoting()])


@pytest.mark.spec("RP-6")
def test_what_is_used_and_no_longer_visible_is_fetched_again_and_charged_in_full():
    made = forgetful()
    uses = index_uses(made)
    run = simulate(made, parse_policy("masking"), uses)
    (fetching,) = [call for call in run.calls if call.source == "refetch"]
    main = run.calls[run.calls.index(fetching) + 1]
    costs = prepare(made).costs(0, MODEL, find_model(MODEL))
    block = made.threads[0].records[2].blocks[0]
    assert [(refetch.block, refetch.tokens) for refetch in fetching.refetches] == [
        ("result-1:0", costs.block(block))
    ]
    # One extra call reads the context again and writes a tool call; then the block is part of the context.
    assert fetching.output == FETCHING_TOKENS
    # Masking hides one more small result for it.
    whole = fetching.context + FETCHING_TOKENS + costs.block(block) + 2 * costs.turn
    assert whole - 60 < main.context < whole
    # What was fetched is new: it is written now, and that too is the refetch's.
    fetched = costs.block(block) * RATES.write_5m / Decimal(1_000_000)
    assert run.totals.spent.refetches == fetching.dollars + fetched
    assert run.totals.dollars == sum(call.dollars for call in run.calls)


def thoughtful(model, *, asked_again):
    """The first result is repeated in the thinking after it; later a reply replaces these lines."""
    records = steps(FIRST + text(3_000), *[text(50, f"word{at}") for at in range(11)], model=model)
    second = next(at for at, record in enumerate(records) if record.uuid == "says-2")
    reads = tool_call("toolu_2", "Read", file_path="src/file_2.py")
    records[second] = assistant(
        think(FIRST), reads, id="msg_2", uuid="says-2", model=model, timestamp=records[second].timestamp
    )
    asked = [user("Now change it.", uuid="again", timestamp=stamp(390))] if asked_again else []
    return session([*records[:-1], *asked, quoting(model)], model=model)


@pytest.mark.spec("RP-6")
@pytest.mark.parametrize(
    ("model", "asked_again", "found"),
    [
        ("claude-sonnet-4-5", False, []),
        ("claude-sonnet-4-5", True, ["result-1:0"]),
        ("claude-opus-4-5", False, []),
        ("claude-opus-4-5", True, []),
    ],
)
def test_thinking_holds_what_it_repeats_until_the_model_no_longer_sees_it(model, asked_again, found):
    """In a tool loop every model sees its thinking; in a new turn only some models do."""
    made = thoughtful(model, asked_again=asked_again)
    run = simulate(made, parse_policy("masking"), index_uses(made))
    assert [refetch.block for each in run.calls for refetch in each.refetches] == found


@pytest.mark.spec("RP-6")
def test_nothing_is_a_refetch_while_everything_is_visible():
    run = simulate(forgetful(), parse_policy("none"), index_uses(forgetful()))
    assert {call.source for call in run.calls} == {"main"}


# ── models and counting ──────────────────────────────────────────────────────────────────────────


def test_another_model_is_paid_at_its_own_price():
    made = session(steps("one", "two"))
    own, other = run_of(made, "none"), run_of(made, "none", model="claude-haiku-4-5")
    assert {call.model for call in other.calls} == {"claude-haiku-4-5"}
    assert 4 < own.totals.dollars / other.totals.dollars < 6


def test_an_unknown_model_is_measured_as_another_and_said_so():
    run = run_of(session(steps("one", model="gemini-3-pro"), model="gemini-3-pro"), "none")
    assert "'gemini-3-pro' is not in the table of models; measured as claude-opus-5-5" in run.notes


@pytest.mark.spec("RP-2")
def test_counts_are_corrected_by_what_the_session_reported():
    records, context = [], HEAD
    costs = ScaledCosts(find_model(MODEL))
    for record in steps(*[text(500, f"word{at}") for at in range(12)]):
        if record.kind == "assistant" and record.reply:
            reported = msgspec.convert(usage(context), Usage)
            record = msgspec.structs.replace(
                record, reply=msgspec.structs.replace(record.reply, usage=reported)
            )
        records.append(record)
        context += 2 * costs.all(sent_blocks([record])) if record.uuid != "prompt-0" else 0
    made = session(records)
    run = run_of(made, "none")
    assert prepare(made).ratios[MODEL].ratio == pytest.approx(2.0, rel=0.01)
    assert [call.context for call in run.calls] == pytest.approx(
        [each.reply.usage.context for each in records if each.reply], rel=0.01
    )


@pytest.mark.skipif(not RECORDED.exists(), reason="no recorded sessions here")
def test_recorded_files_of_the_tests_can_be_replayed():
    files = sorted(RECORDED.rglob("*.jsonl"))
    for file in files:
        found = read_session(file)
        for name in REPLAY_POLICIES if hasattr(found, "threads") else ():
            assert simulate(found, parse_policy(name), index_uses(found)).session == found.name
