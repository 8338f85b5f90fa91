"""The file of requests, checked by somebody who knows nothing of us: JSON, a plain cache, a price list."""

import io
import json

import msgspec
import pytest
from builders import answer, assistant, call, say, think, user
from click.testing import CliRunner
from replay.request_checker import Checked, check
from replay.scripts import MODEL, START, session, stamp, steps, text

from everturn.cli import main
from everturn.history.blocks import text_block
from everturn.history.messages import Message
from everturn.measure.capabilities import ANTHROPIC
from everturn.measure.model_table import find_model
from everturn.measure.prefix_cache import PrefixCache
from everturn.replay.playing.cache_billing import LastPromptForecast, build_prompt
from everturn.replay.playing.counting import ScaledCosts
from everturn.replay.playing.prepared import index_uses
from everturn.replay.policies import REPLAY_POLICIES, parse_policy
from everturn.replay.requests_file import make_request_writer
from everturn.replay.simulate import simulate
from everturn.view.cache_key import compute_key_salts
from everturn.view.key_parameters import KeyParameters, TtlChoice
from everturn.wire.anthropic import Request

ALL = (*REPLAY_POLICIES, "claude-code+1h", "none+refresh", "recorded+refresh", "claude-code+refresh-blind")


def made():
    main = steps(*[text(2_500, f"word{at}") for at in range(24)], gaps={9: 420, 17: 4_000})
    return session(main, steps("one", "two"))


def lines_of(name, *, window=60_000):
    out = io.BytesIO()
    found = made()
    run = simulate(
        found,
        parse_policy(name, window=window),
        index_uses(found),
        observer=make_request_writer(out, found.name, name),
    )
    return run, [json.loads(line) for line in out.getvalue().splitlines()]


@pytest.mark.spec("RP-4")
@pytest.mark.parametrize("name", [*ALL, "sliding-window+1h+refresh"])
def test_the_bill_can_be_checked_from_the_file_alone(name):
    run, lines = lines_of(name)
    checked = check(json.dumps(line).encode() for line in lines)
    assert problems_of(checked) == []
    (bill,) = checked.bills.values()
    assert bill.requests == len(run.calls)
    assert bill.recomputed == pytest.approx(float(run.totals.dollars), rel=0.005)


def problems_of(checked: Checked) -> list[str]:
    return [*checked.invalid, *checked.wrong_sums, *checked.wrong_usage, *checked.wrong_dollars]


def problems_under(name, *records, window=0):
    out, found = io.BytesIO(), session(list(records))
    write = make_request_writer(out, found.name, name)
    simulate(found, parse_policy(name, window=window), index_uses(found), observer=write)
    return problems_of(check(out.getvalue().splitlines()))


def reply(*blocks, number, model=MODEL, **more):
    at = stamp(20 * number)
    return assistant(*blocks, id=f"msg_{number}", uuid=f"says-{number}", model=model, timestamp=at, **more)


SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
ASKED = user("Go on.", uuid="u1", timestamp=stamp(0)), user("And now?", uuid="u2", timestamp=stamp(30))
ODD = {
    "begins with a reply": (reply(say("Here I am."), number=1), ASKED[1], reply(say("Yes."), number=2)),
    "a server tool without its result": (ASKED[0], reply(SEARCH, number=1), ASKED[1], reply("So.", number=2)),
    "a result without its server tool": (ASKED[0], reply(FOUND, number=1), ASKED[1], reply("So.", number=2)),
    "thinking of a model that cannot think": (
        ASKED[0],
        reply(think("Hm."), say("Yes."), number=1, model="claude-3-5-haiku-20241022"),
        ASKED[1],
        reply(think("Hm."), say("No."), number=2, model="claude-3-5-haiku-20241022"),
    ),
    "thinking behind a call that has no result": (
        ASKED[0],
        reply(call("toolu_1", "Read", file_path="a.py"), think("Hm."), number=1),
        ASKED[1],
        reply(think("Hm."), say("Yes."), number=2),
    ),
}


@pytest.mark.spec("RP-16")
@pytest.mark.parametrize("policy", ["recorded", "claude-code"])
@pytest.mark.parametrize("records", ODD.values(), ids=ODD)
def test_what_no_api_accepts_is_not_sent_though_a_recording_has_it(records, policy):
    assert problems_under(policy, *records) == []


def prompt_of(*words):
    costs = ScaledCosts(find_model(MODEL))
    request = Request(model=MODEL, messages=tuple(Message("user", (text_block(each),)) for each in words))
    salts = compute_key_salts(find_model(MODEL), KeyParameters(TtlChoice("5m", "")))
    return build_prompt(request, costs, salts, ANTHROPIC, 0)


def test_what_the_cache_did_is_told_by_the_first_request_that_finds_it():
    """A summary with the same prefix goes before the call; one of another conversation finds nothing."""
    forecast = LastPromptForecast(PrefixCache())
    prompt = prompt_of(text(500), "Go on.")
    forecast.warm = prompt.ends[0]
    forecast.predict(prompt, START.timestamp())
    told = (prompt.ends[0],), None
    assert forecast.hand_over(prompt_of("Another one.")) == ((), None)
    assert (forecast.found, forecast.lost_behind) == told
    assert forecast.hand_over(prompt_of(text(500), "Summarize.")) == told
    assert (forecast.found, forecast.lost_behind) == ((), None)


@pytest.mark.spec("RP-4")
def test_what_was_found_for_a_request_that_was_planned_and_not_sent_is_told_by_none():
    """The policy clears a result after the first plan, so what was found ends in no block of the request."""
    forecast = LastPromptForecast(PrefixCache())
    forecast.warm = 10_000
    forecast.predict(prompt_of("Read it.", text(500), "Go on."), START.timestamp())
    sent = prompt_of("Read it.", "[cleared]", "Go on.")
    forecast.warm = sent.ends[0]
    forecast.predict(sent, START.timestamp())
    assert forecast.found == (sent.ends[0],)


@pytest.mark.spec("RP-4")
@pytest.mark.spec("RP-16")
@pytest.mark.parametrize(
    "options",
    [
        "--seed 312 --boundaries 1 --forks 1 --model claude-sonnet-4-5-20250929 --cache-lifetime 1h",
        "--seed 313 --boundaries 1 --model claude-opus-4-5-20251101 --model-switches 2 --idle-gaps 3",
        "--seed 315 --microcompactions 1 --idle-gaps 2",
    ],
)
def test_every_request_of_a_generated_session_is_valid_and_its_bill_can_be_recomputed(options, tmp_path):
    made, out = str(tmp_path / "made.jsonl"), tmp_path / "requests"
    run = CliRunner().invoke(main, ["make-session", "--tokens", "5000", "--out", made, *options.split()])
    assert run.exit_code == 0, run.output
    given = ["replay", made, "--policy", ",".join(ALL), "--requests", str(out), "--json"]
    run = CliRunner().invoke(main, [*given, "--cache", str(tmp_path / "cache"), "--workers", "1"])
    assert run.exit_code == 0, run.output
    with out.open("rb") as lines:
        checked = check(lines)
    assert problems_of(checked) == []
    assert {policy for _, policy in checked.bills} == set(ALL)
    assert checked.worst < 0.005
    rows = {row["policy"]: float(row["dollars"]) for row in json.loads(run.stdout)["rows"]}
    assert {policy: bill.dollars for (_, policy), bill in checked.bills.items()} == pytest.approx(rows)


@pytest.mark.spec("RP-4")
def test_tokens_sum_to_the_billed_input():
    for line in lines_of("claude-code")[1]:
        usage = line["usage"]
        billed = (
            usage["input_tokens"] + usage["cache_creation_input_tokens"] + usage["cache_read_input_tokens"]
        )
        assert sum(line["tokens"]) == billed


def test_a_line_says_who_when_and_why_it_was_sent():
    _, lines = lines_of("claude-code")
    first = lines[0]
    assert list(first) == [
        "session", "policy", "thread", "call", "time", "source", "model", "request", "usage", "dollars",
        "tokens", "trailing", "hidden", "cache",
    ]  # fmt: skip
    assert (first["session"], first["policy"], first["call"]) == ("made", "claude-code", 1)
    assert (first["time"], first["source"]) == ("2026-03-02T09:00:20Z", "main")
    assert {"main", "compact"} <= {line["source"] for line in lines}
    assert {line["thread"] for line in lines} == {"main", "agent1"}


def test_a_refresh_asks_for_no_answer():
    lines = lines_of("none+refresh")[1]
    assert {line["request"]["max_tokens"] for line in lines if line["source"] == "refresh"} == {0}


def test_the_file_says_that_the_head_is_a_stand_in():
    system = lines_of("none")[1][0]["request"]["system"]
    assert [
        block["text"].startswith("[system prompt and tools of main, not recorded:") for block in system
    ] == [True]


@pytest.mark.spec("RP-12")
def test_a_bill_with_cache_events_can_be_checked_too():
    """A line says which entries of others were found, and which of ours were gone."""
    from everturn.replay.playing.cache_billing import CacheEvent
    from everturn.replay.playing.prepared import prepare

    found = made()
    events = {4: CacheEvent("lost", 10_000), 9: CacheEvent("found", 20_000)}
    prepared = prepare(found)
    prepared.anchors = (
        msgspec.structs.replace(prepared.anchors[0], events=events),
        *prepared.anchors[1:],
    )
    out = io.BytesIO()
    run = simulate(found, parse_policy("none"), None, observer=make_request_writer(out, "made", "none"))
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [line["call"] for line in lines if line["cache"]] == [4, 9]
    assert problems_of(check(json.dumps(line).encode() for line in lines)) == []
    assert run.calls[3].read < run.calls[2].context - 1_000


def lines_under(policy, *records, model="claude-sonnet-4-5"):
    found, out = session(list(records), model=model), io.BytesIO()
    simulate(found, parse_policy(policy), None, observer=make_request_writer(out, "made", policy))
    return [json.loads(line) for line in out.getvalue().splitlines()]


@pytest.mark.parametrize("policy", ["none", "recorded", "claude-code"])
def test_a_reference_to_a_tool_that_is_not_recorded_is_told_as_text(policy):
    loaded = answer("c1", [{"type": "tool_reference", "tool_name": "TaskCreate"}])
    lines = lines_under(
        policy,
        user("Plan it."),
        assistant(call("c1", "ToolSearch", query="task"), id="m1", model=MODEL),
        user([loaded]),
        assistant("Planned.", id="m2", model=MODEL),
    )
    assert problems_of(check(json.dumps(line).encode() for line in lines)) == []
    said = lines[-1]["request"]["messages"][-1]["content"][0]["content"]
    assert said == [{"type": "text", "text": "[tool TaskCreate, its definition is not recorded]"}]


@pytest.mark.spec("RP-16")
@pytest.mark.parametrize("policy", ["none", "recorded", "claude-code"])
def test_between_two_replies_in_a_row_stands_a_prompt_that_is_not_recorded(policy):
    """This model refuses a request that ends with its own words."""
    model = "claude-opus-5"
    lines = lines_under(
        policy,
        user("Say it."),
        assistant("One.", id="m1", model=model),
        assistant("Two.", id="m2", model=model),
        model=model,
    )
    assert problems_of(check(json.dumps(line).encode() for line in lines)) == []
    told = [message["content"][-1]["text"] for message in lines[-1]["request"]["messages"]]
    assert told == ["Say it.", "One.", "[not in the recording: the prompt of call 2]"]


@pytest.mark.spec("RP-4")
def test_a_summary_before_a_call_without_thinking_reads_what_the_thinking_calls_cached():
    """The fork asks for thinking as the call before it did, so its cache key is the same."""
    model = "claude-sonnet-4-5"
    # What the API reported shows that the last call turned thinking off: it read nothing of the messages.
    reports = {0: (10_000, 0), 9: (37_000, 36_000), 10: (40_000, 36_990), 11: (46_000, 9_000)}
    said = []
    for at in range(12):
        words = [think(f"I read {at}.")] if at < 11 else []
        report = {"input_tokens": 3, "output_tokens": 9} if at in reports else None
        if report:
            whole, read = reports[at]
            report |= {"cache_read_input_tokens": read, "cache_creation_input_tokens": whole - read - 3}
        prompt = text(3_000, f"word{at}") if at < 11 else text(6_000, "last")
        said += [
            user(prompt, uuid=f"p{at}", timestamp=stamp(20 * at)),
            assistant(*words, "Read.", id=f"m{at}", model=model, usage=report, timestamp=stamp(20 * at + 5)),
        ]
    lines = []
    for window in range(60_000, 90_000, 3_000):
        found, out = session(said, model=model), io.BytesIO()
        policy = parse_policy("claude-code", window=window)
        simulate(found, policy, None, observer=make_request_writer(out, f"made{window}", "claude-code"))
        lines += [json.loads(line) for line in out.getvalue().splitlines()]
    summaries = [line for line in lines if line["source"] == "compact"]
    assert [line["call"] for line in summaries if line["call"] == 12] != []
    assert problems_of(check(json.dumps(line).encode() for line in lines)) == []


@pytest.mark.spec("RP-16")
def test_thinking_that_the_api_would_strip_is_in_no_request():
    """The results of a tool loop come with a new prompt: this model is no longer shown its thinking."""
    model = "claude-sonnet-4-5"
    lines = lines_under(
        "none",
        user("Read it."),
        assistant(think("I read it."), call("c1", "Read", file_path="a.py"), id="m1", model=model),
        user([answer("c1", "text"), say("And hurry.")]),
        assistant(think("Now I hurry."), "Done.", id="m2", model=model),
    )
    assert problems_of(check(json.dumps(line).encode() for line in lines)) == []
    assert [line["request"]["thinking"]["type"] for line in lines] == ["enabled", "enabled"]
    assert "I read it." not in json.dumps(lines[-1]["request"])
