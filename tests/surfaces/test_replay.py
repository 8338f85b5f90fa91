"""`everturn replay`: what sessions would have cost (RP, BY)."""

import json
from datetime import datetime
from shutil import copy

import pytest
from surfaces.desk import assistant_line, call, result, text, usage, user_line

from everturn.twin.app import serve_twin
from everturn.twin.build import build_twin
from everturn.twin.options import TwinOptions
from everturn.twin.upstream import make_twin_send


@pytest.fixture
def made(desk):
    """A session of 54 calls with a pause, and a command that replays it."""
    desk.everturn("make-session", "--tokens", 60_000, "--out", desk.path)

    def replay(*options, paths=(desk.path,)):
        cache = ("--cache", desk.folder / "cache", "--engine", "here")
        return desk.everturn("replay", *paths, *cache, *options)

    return replay


def rows(done):
    return {row["policy"]: row for row in json.loads(done.stdout)["rows"]}


@pytest.mark.spec("RP-1")
def test_formats_are_recognised_and_what_cannot_be_read_is_named_with_the_reason(desk, made):
    folder = desk.folder / "many"
    folder.mkdir()
    copy(desk.path, folder / "claude.jsonl")
    plain = [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "Hello."}]
    (folder / "anthropic.json").write_text(json.dumps(plain))
    calls = [{"id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}]
    openai = [
        {"role": "system", "content": "You help."},
        {"role": "user", "content": "List."},
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "c1", "content": "a.py"},
        {"role": "assistant", "content": "One file."},
    ]
    (folder / "openai.json").write_text(json.dumps(openai))
    (folder / "broken.jsonl").write_text("{nothing\n")
    done = json.loads(
        made("--policy", "none", "--json", "--model", "claude-haiku-4-5", paths=[folder]).stdout
    )
    assert done["rows"][0]["sessions"] == 3
    [unreadable] = done["unreadable"]
    assert unreadable["path"].endswith("broken.jsonl")
    assert unreadable["why"]


@pytest.mark.spec("RP-2", "RP-4")
def test_every_reply_is_one_call_with_a_whole_request_at_its_recorded_time(desk, made):
    target = desk.folder / "requests.jsonl"
    found = rows(made("--policy", "none", "--json", "--requests", target))
    lines = [json.loads(line) for line in target.read_text().splitlines()]
    replies = {
        line["message"]["id"]
        for line in desk.lines()
        if line["type"] == "assistant" and "usage" in line["message"]
    }
    assert found["none"]["calls"] == len(replies) == len(lines)
    recorded = {datetime.fromisoformat(line["timestamp"]) for line in desk.lines() if "timestamp" in line}
    assert {datetime.fromisoformat(line["time"]) for line in lines} <= recorded
    heads = {json.dumps(line["request"].get("system")) for line in lines if line["source"] == "main"}
    # The session has one, its agent another.
    assert len(heads) == 2
    for line in lines:
        total = line["usage"]["input_tokens"]
        total += line["usage"]["cache_read_input_tokens"] + line["usage"]["cache_creation_input_tokens"]
        assert sum(line["tokens"]) == total


def dollars_of(input, written, read):
    """At the prices of Haiku 4.5, without the output."""
    return (input * 1 + written * 1.25 + read * 0.1) / 1e6


def reported_lines(*reported):
    """Calls of a tool with large results, and the usage of each."""
    filler = "Nothing of interest stands in this line of the log. " * 300
    lines = [user_line("Look.")]
    for n, each in enumerate(reported):
        lines.append(assistant_line(call(f"toolu_{n}", "Read", file_path=f"/{n}"), id=f"msg_{n}", usage=each))
        lines.append(user_line([result(f"toolu_{n}", filler)]))
    return lines


def context_of(each):
    names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    return sum(each[name] for name in names)


def usages_of(requests, policy):
    found = (json.loads(line) for line in requests.read_text().splitlines())
    return [line["usage"] for line in found if line["policy"] == policy and line["source"] == "main"]


@pytest.mark.spec("RP-3", "RP-12")
def test_recorded_has_the_reported_context_and_shows_both_errors_in_every_output(desk, made):
    # The third call reads only what the first had written, which nothing in the file explains.
    reported = [usage(10, 9_000, 0, 60), usage(12, 4_000, 9_000, 60), usage(15, 9_000, 9_000, 60)]
    desk.write(*reported_lines(*reported))
    requests, page = desk.folder / "requests.jsonl", desk.folder / "page.html"
    options = ("--policy", "recorded,none", "--requests", requests, "--html", page)
    found = rows(made(*options, "--json"))
    replayed = usages_of(requests, "recorded")
    assert [context_of(each) for each in replayed] == [context_of(each) for each in reported]
    # Other policies have the same sizes.
    assert [context_of(each) for each in usages_of(requests, "none")] == [9_010, 13_012, 18_015]
    names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")

    def dollars(usages):
        return dollars_of(*(sum(each[name] for each in usages) for name in names))

    errors = found["recorded"]["error"]
    with_events = dollars(replayed) / dollars(reported) - 1
    assert errors["with_events"]["input_dollars"] == pytest.approx(with_events)
    assert abs(with_events) < 0.001
    # Predicted: the third call reads what the second had cached.
    likely = [*reported[:2], usage(15, 5_000, 13_000, 60)]
    predicted = errors["predicted"]["input_dollars"]
    assert predicted == pytest.approx(dollars(likely) / dollars(reported) - 1, abs=0.001)
    assert (errors["calls"], errors["events"], errors["sessions_within_3"]) == (3, 1, 1.0)
    assert float(errors["event_dollars"]) == pytest.approx(4_000 * (1.25 - 0.1) / 1e6, rel=0.01)
    assert found["none"]["error"] is None
    told = f"Predicted: input dollars {predicted:+.1%}"
    again = f"With 1 recorded cache event ($0.00) copied: input dollars {with_events:+.1%}"
    table = " ".join(made("--policy", "recorded,none", "--no-color").stdout.split())
    assert told in table
    assert again in table
    assert f"{predicted:+.1%} / {with_events:+.1%}" in table
    # On the page: the note of the policies, and that of the session.
    shown = page.read_text()
    assert (shown.count(told), shown.count(again)) == (2, 2)


@pytest.mark.spec("RP-12")
def test_a_call_that_read_nothing_at_all_is_named_with_its_dollars_in_every_output(desk, made):
    """The agent changed its system prompt, which no file tells: no prediction can have it."""
    # The fourth call reads only what the first had written: an ordinary loss, which is not counted here.
    reported = [usage(10, 9_000, 0, 60), usage(12, 4_000, 9_000, 60), usage(15, 18_000, 0, 60)]
    desk.write(*reported_lines(*reported, usage(15, 13_000, 9_000, 60)))
    page = desk.folder / "page.html"
    row = rows(made("--policy", "recorded", "--json", "--html", page))["recorded"]
    errors = row["error"]
    assert (errors["events"], errors["unread_events"]) == (2, 1)
    assert float(errors["unread_dollars"]) == pytest.approx(13_000 * (1.25 - 0.1) / 1e6, rel=0.01)
    assert row["breaks"] == {
        "system prompt or tools changed or lost, as in the recording": 1,
        "the provider lost the entry, as in the recording": 1,
    }
    told = "1 call reads nothing ($0.01 of the events), not even system prompt and tools"
    assert told in " ".join(made("--policy", "recorded", "--no-color").stdout.split())
    assert told in page.read_text()


@pytest.mark.spec("RP-12")
def test_the_context_is_the_reported_one_after_a_change_of_the_model_and_back(desk, made):
    """Each model counts the same conversation with its own tokens."""
    reported = [usage(10, 9_000, 0, 60), usage(12, 4_000, 9_000, 60), usage(15, 17_000, 0, 60)]
    reported += [usage(15, 5_000, 17_000, 60), usage(15, 22_000, 0, 60), usage(15, 4_000, 22_000, 60)]
    lines = reported_lines(*reported)
    for line, model in zip(
        lines[1::2], ("opus-4-5", "opus-4-5", "sonnet-5", "sonnet-5", "opus-4-5", "opus-4-5"), strict=True
    ):
        line["message"]["model"] = f"claude-{model}"
    desk.write(*lines)
    requests = desk.folder / "requests.jsonl"
    row = rows(made("--policy", "recorded", "--requests", requests, "--json"))["recorded"]
    assert row["error"]["with_events"]["context_within_1"] == 1.0
    replayed = [context_of(each) for each in usages_of(requests, "recorded")]
    assert replayed == pytest.approx([context_of(each) for each in reported], abs=20)
    assert "not in the recording" not in requests.read_text()


@pytest.mark.spec("RP-12")
def test_what_the_api_saw_and_the_file_lacks_is_a_block_of_its_own(desk, made):
    desk.write(*reported_lines(usage(10, 9_000, 0, 60), usage(12, 44_000, 9_000, 60)))
    requests = desk.folder / "requests.jsonl"
    made("--policy", "recorded,claude-code", "--requests", requests, "--json")
    for policy in ("recorded", "claude-code"):
        assert [context_of(each) for each in usages_of(requests, policy)] == [9_010, 53_012]
    last = [json.loads(line) for line in requests.read_text().splitlines()][1]
    words = last["request"]["messages"][-1]["content"][-1]["text"]
    assert words.startswith("[not in the recording, before call 2: ")


@pytest.mark.spec("RP-12")
def test_a_file_that_begins_in_the_middle_is_marked_and_not_in_the_savings(desk, made):
    lines = reported_lines(usage(10, 90_000, 0, 60), usage(12, 4_000, 90_000, 60))
    lines[0] = {**lines[0], "parentUuid": "from-before"}
    desk.write(*lines)
    done = json.loads(made("--policy", "recorded,none", "--json").stdout)
    assert done["begun_in_middle"] == 1
    by_name = {row["policy"]: row for row in done["rows"]}
    assert float(by_name["none"]["against_recorded"]["of"]) == 0
    assert float(by_name["none"]["dollars"]) > 0


@pytest.mark.spec("RP-13")
def test_what_was_paid_and_what_replay_computes_are_explained_to_the_cent(desk, made):
    desk.write(*reported_lines(usage(10, 9_000, 0, 60), usage(12, 4_000, 9_000, 900)))
    row = rows(made("--policy", "recorded", "--json"))["recorded"]
    audited = json.loads(desk.everturn("audit", desk.path, "--json").stdout)
    paid = {name: float(value) for name, value in row["paid"].items()}
    assert paid["paid"] == pytest.approx(audited["total"]["dollars"])
    assert (paid.pop("sessions"), paid.pop("dollars")) == (1, pytest.approx(float(row["dollars"])))
    assert sum(paid.values()) == pytest.approx(float(row["dollars"]))
    assert row["refetches"] + row["probable_refetches"] == 0
    assert "The files report $0.0" in " ".join(made("--policy", "recorded", "--no-color").stdout.split())


def _without_parents(lines):
    return [{**line, "parentUuid": None} for line in lines]


def _without_ids(lines):
    return [_changed(line, id="", request="") for line in lines]


def _changed(line, *, id, request):
    message = {**line["message"], "id": id} if line["type"] == "assistant" else line["message"]
    return {**line, "message": message, "requestId": request}


def _backwards(lines):
    return lines[::-1]


def _with_half_of_the_usage(lines):
    message = {name: value for name, value in lines[3]["message"].items() if name != "usage"}
    return [*lines[:3], {**lines[3], "message": message}, *lines[4:]]


@pytest.mark.spec("RP-13")
@pytest.mark.parametrize(
    ("vary", "calls", "part"),
    [
        (_without_parents, 2, ""),
        (_without_ids, 2, ""),
        (_backwards, 2, ""),
        (_with_half_of_the_usage, 2, "unreported"),
    ],
)
def test_audit_context_and_replay_agree_on_odd_files_or_say_why_not(desk, made, vary, calls, part):
    desk.write(*reported_lines(usage(10, 90_000, 0, 60), usage(12, 4_000, 90_000, 900)))
    lines = [json.loads(line) for line in desk.path.read_text().splitlines()]
    desk.path.write_text("".join(json.dumps(line) + "\n" for line in vary(lines)))
    audited = json.loads(desk.everturn("audit", desk.path, "--json").stdout)["total"]["dollars"]
    shown = json.loads(desk.everturn("context", desk.path, "--json").stdout)["cost"]["dollars"]
    row = rows(made("--policy", "recorded", "--json"))["recorded"]
    assert (shown, float(row["paid"]["paid"])) == (pytest.approx(audited), pytest.approx(audited))
    parts = {name: float(row["paid"][name]) for name in row["paid"] if name not in ("sessions", "dollars")}
    assert (row["calls"], sum(parts.values())) == (calls, pytest.approx(float(row["dollars"])))
    assert {name for name in ("not_replayed", "unreported") if abs(parts[name]) > 0.001} == ({part} - {""})
    page = desk.folder / "page.html"
    table = " ".join(made("--policy", "recorded", "--no-color", "--html", page).stdout.split())
    said = (
        f"The files report ${audited:,.2f} (everturn audit); recorded comes to ${float(row['dollars']):,.2f}"
    )
    assert said in table
    assert said in page.read_text()


@pytest.mark.spec("RP-15")
def test_savings_have_intervals_that_are_the_same_every_time(desk, made):
    folder = desk.folder / "six"
    folder.mkdir()
    for n in range(6):
        desk.everturn(
            "make-session", "--tokens", 20_000 + 4_000 * n, "--seed", n, "--out", folder / f"{n}.jsonl"
        )
    asked = ("--policy", "recorded,none,masking,sliding-window", "--json")
    found = rows(made(*asked, paths=[folder]))
    saved = found["masking"]["against_recorded"]
    share = float(saved["dollars"]) / float(saved["of"])
    assert saved["interval"]["low"] <= share <= saved["interval"]["high"]
    assert rows(made(*asked, paths=[folder])) == found
    # The same policy differs from itself by nothing.
    assert found["recorded"]["against_recorded"]["interval"] == {"low": 0.0, "high": 0.0}
    table = made("--policy", "recorded,none,masking", "--no-color", paths=[folder]).stdout
    assert "saved vs recorded" in table
    assert "at most 2.5 refetches per 100 calls and at least 90% of the user's words kept" in " ".join(
        table.split()
    )


@pytest.mark.spec("RP-16")
@pytest.mark.parametrize(
    "policy", ["recorded", "none+refresh-blind", "masking", "sliding-window", "summarize-85"]
)
def test_every_request_of_a_session_that_thinks_is_accepted_by_the_twin(desk, made, policy):
    filler = "Nothing of interest stands in this line of the log. " * 640
    thought = {"type": "thinking", "thinking": "Let me see.", "signature": "c2lnbmVk"}
    lines = [user_line("Look.")]
    for n in range(20):
        blocks = [thought, call(f"toolu_{n}", "Read", file_path=f"/log{n}.txt")]
        lines += [
            assistant_line(block, id=f"msg_{n}", usage=usage(1_000 + n * 9_000, output=50))
            for block in blocks
        ]
        lines.append(user_line([result(f"toolu_{n}", filler)]))
    desk.write(*lines)
    requests = desk.folder / "requests.jsonl"
    made("--policy", policy, "--requests", requests, "--json")
    bodies = [json.loads(line)["request"] for line in requests.read_text().splitlines()]
    assert {body["thinking"]["type"] for body in bodies if body["model"] == bodies[0]["model"]} == {"enabled"}
    assert all(body["messages"] for body in bodies)
    twin = build_twin(options=TwinOptions(foreign_signatures="accept"))
    send = make_twin_send(twin)
    for body in bodies:
        # Raises what the API would answer to a request that it refuses.
        send(json.dumps(body).encode(), ())
    assert len(twin.ledger()) == len(bodies) >= 20


@pytest.mark.spec("RP-17")
def test_models_without_a_price_are_named_for_folders_and_snapshots_count_once(desk, made):
    folder = desk.folder / "many"
    folder.mkdir()
    lines = reported_lines(usage(10, 9_000, 0, 60), usage(12, 4_000, 9_000, 60))
    desk.write(*lines)
    (folder / "whole.jsonl").write_bytes(desk.path.read_bytes())
    (folder / "snapshot.jsonl").write_bytes(b"".join(desk.path.read_bytes().splitlines(keepends=True)[:-2]))
    other = [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "Hello.", "model": "gpt-5"}]
    (folder / "other.json").write_text(json.dumps(other))
    done = json.loads(made("--policy", "recorded", "--json", paths=[folder]).stdout)
    assert done["rows"][0]["sessions"] == 2
    assert [note for note in done["notes"] if note.endswith("snapshot.jsonl")]
    assert [note for note in done["notes"] if note.endswith("(1 of 2 sessions)")]


@pytest.mark.spec("RP-17")
def test_the_cost_that_another_agent_recorded_is_shown_and_its_cache_is_not_compared(desk, made):
    folder = desk.folder / "others"
    folder.mkdir()
    asked = {"role": "user", "content": "Fix it."}
    spent = {
        "prompt_tokens": 9_000,
        "completion_tokens": 5,
        "prompt_tokens_details": {"cached_tokens": 8_000},
    }
    response = {"id": "r1", "model": "gemini-3-pro", "usage": spent, "created": 1_760_000_000}
    said = {"role": "assistant", "content": "Done.", "extra": {"response": response}}
    run = {
        "trajectory_format": "mini-swe-agent-1",
        "info": {"model_stats": {"instance_cost": 1.25}},
        "messages": [{"role": "system", "content": "You help."}, asked, said],
    }
    (folder / "run.traj.json").write_text(json.dumps(run))
    desk.write(*reported_lines(usage(10, 9_000, 0, 60), usage(12, 4_000, 9_000, 60)))
    (folder / "claude.jsonl").write_bytes(desk.path.read_bytes())
    page = folder / "page.html"
    done = json.loads(made("--policy", "recorded", "--json", "--html", page, paths=[folder]).stdout)
    assert (done["guessed"], done["recorded_costs"], done["recorded_dollars"]) == (1, 1, "1.25")
    [row] = done["rows"]
    assert (row["error"]["calls"], row["paid"]["sessions"]) == (2, 1)
    told = made("--policy", "recorded", "--no-color", paths=[folder]).stdout
    assert "say that $1.25 was paid" in " ".join(told.split())
    assert "$1.25 was paid" in page.read_text()
    audited = desk.everturn("audit", folder, "--no-color").stdout
    assert "1 such session say what they cost: $1.25" in " ".join(audited.split())


@pytest.mark.spec("EC-12")
def test_bounds_are_below_every_policy_that_can_run(made):
    found = rows(made("--policy", "none,recorded,claude-code,masking,sliding-window,clears-only", "--json"))
    for row in found.values():
        assert float(row["floor"]) <= float(row["clairvoyant"]) <= float(row["dollars"])
    assert found["clears-only"]["is_bound"]


def test_a_period_leaves_sessions_out(desk, made):
    day = next(line["timestamp"] for line in desk.lines() if "timestamp" in line)[:10]
    assert rows(made("--policy", "none", "--json", "--since", day, "--until", day))["none"]["sessions"] == 1
    late = made("--policy", "none", "--json", "--since", "2099-01-01")
    assert (late.exit_code, "No session to replay." in late.stderr) == (1, True)
    wrong = made("--policy", "none", "--since", "2026-02-01", "--until", "2026-01-01")
    assert "--until 2026-01-01 is before --since 2026-02-01." in wrong.stderr


def test_summaries_can_be_billed_as_those_of_another_model(desk, made):
    desk.write(*long_lines())
    requests = desk.folder / "requests.jsonl"
    made("--policy", "summarize-85", "--summary-model", "claude-haiku-4-5", "--requests", requests, "--json")
    lines = [json.loads(line) for line in requests.read_text().splitlines()]
    assert {line["model"] for line in lines if line["source"] == "compact"} == {"claude-haiku-4-5"}


def test_a_page_into_a_missing_folder_fails_at_once_and_files_are_private(desk, made):
    wrong = made("--html", desk.folder / "missing" / "page.html")
    assert (wrong.exit_code, "does not exist. Create it, or name another file." in wrong.stderr) == (2, True)
    page, requests = desk.folder / "page.html", desk.folder / "requests.jsonl"
    made("--policy", "none", "--html", page, "--requests", requests)
    assert [each.stat().st_mode & 0o777 for each in (page, requests)] == [0o600, 0o600]


@pytest.mark.spec("RP-3")
def test_recorded_says_so_where_nothing_was_reported(desk, made):
    desk.write(user_line("Look."), assistant_line(text("Done.")))
    assert rows(made("--policy", "recorded", "--json"))["recorded"]["error"] is None
    table = " ".join(made("--policy", "recorded", "--no-color").stdout.split())
    assert "so the error of this row is not known." in table


def long_lines():
    """A session that fills its window of 200,000 tokens."""
    filler = "Nothing of interest stands in this line of the log. " * 640
    lines = [user_line("Look.")]
    for n in range(24):
        reads = call(f"toolu_{n}", "Read", file_path=f"/log{n}.txt")
        lines.append(assistant_line(reads, id=f"msg_{n}", usage=usage(1_000 + n * 8_000, output=50)))
        lines.append(user_line([result(f"toolu_{n}", filler)]))
    return [*lines, assistant_line(text("Done."), id="msg_99", usage=usage(193_000, output=50))]


@pytest.mark.spec("RP-5")
def test_a_named_model_writes_the_summaries_through_the_configured_provider(desk, made):
    desk.write(*long_lines())
    words = "<summary>1. The user wants the logs read. All of them were read; nothing was found.</summary>"
    desk.twin.script({"content": [text(words)], "when": "Write a summary"})
    requests = desk.folder / "requests.jsonl"
    with serve_twin(desk.twin.twin) as address:
        to = ("--set", f"provider.base_url={address}", "--set", "provider.api_key=sk-ant-test")
        named = ("--policy", "summarize-85,none", "--summarizer", "claude-haiku-4-5", "--requests", requests)
        done = made(*named, "--json", *to)
        again = made(*named, "--json", *to)
    # One request was too long and was repeated without its oldest rounds; only an answer costs something.
    [asked] = [each for each in desk.twin.ledger if each["status"] == 200]
    assert asked["model"] == "claude-haiku-4-5"
    # Paid for once: the second run and the file of requests use the answer that was kept.
    assert again.stdout == done.stdout
    found = rows(done)
    assert (found["summarize-85"]["compactions"], found["none"]["compactions"]) == (1, 0)
    assert "summaries by claude-haiku-4-5, asked directly" in json.loads(done.stdout)["notes"]
    lines = [json.loads(line) for line in requests.read_text().splitlines()]
    [summary] = [line for line in lines if line["source"] == "compact"]
    assert (summary["model"], summary["request"]["model"]) == ("claude-haiku-4-5", "claude-haiku-4-5")
    after = lines[lines.index(summary) + 1]["request"]
    assert "All of them were read; nothing was found." in json.dumps(after)


@pytest.mark.spec("RP-5")
def test_a_summarizer_that_cannot_answer_ends_the_replay_with_the_reason(desk, made):
    desk.write(*long_lines())
    named = ("--policy", "summarize-85", "--summarizer", "claude-haiku-4-5", "--json")
    done = made(*named)
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == (
        "Error: A summarizer needs an API key: set ANTHROPIC_API_KEY or provider.api_key. Without "
        "--summarizer, summaries are written without a model.\n"
    )
    desk.twin.faults({"kind": "server_error", "times": 9})
    with serve_twin(desk.twin.twin) as address:
        done = made(*named, "--set", f"provider.base_url={address}", "--set", "provider.api_key=sk-ant-test")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "The summarizer claude-haiku-4-5 did not answer: 500 api_error" in done.stderr


@pytest.mark.spec("RP-5")
def test_a_compaction_in_a_replay_is_paid_for(desk, made):
    desk.write(*long_lines())
    found = rows(made("--policy", "none,summarize-85", "--json"))
    assert (found["none"]["compactions"], float(found["none"]["spent"]["summaries"])) == (0, 0)
    assert found["summarize-85"]["compactions"] == 1
    assert float(found["summarize-85"]["spent"]["summaries"]) > 0


@pytest.mark.spec("RP-6")
def test_what_was_dropped_and_is_used_again_is_charged(desk, made):
    secret = "frobnicate_quux_7431"
    filler = "Nothing of interest stands in this line of the log. " * 400
    lines = [user_line("Look."), assistant_line(call("toolu_0", "Read", file_path="/a.py"), usage=usage(100))]
    lines.append(user_line([result("toolu_0", f"def {secret}(): pass\n")]))
    size = 1_000
    for n in range(1, 40):
        size += 5_000
        reads = call(f"toolu_{n}", "Read", file_path=f"/log{n}.txt")
        lines += [
            assistant_line(reads, id=f"msg_{n}", usage=usage(size)),
            user_line([result(f"toolu_{n}", filler)]),
        ]
    edit = {"file_path": "/a.py", "old_string": f"def {secret}(): pass", "new_string": "pass"}
    lines += [assistant_line(call("toolu_99", "Edit", **edit), id="msg_99", usage=usage(size + 5_000))]
    lines += [
        user_line([result("toolu_99", "ok")]),
        assistant_line(text("Done."), id="msg_100", usage=usage(size)),
    ]
    desk.write(*lines)
    found = rows(made("--policy", "none,masking", "--json"))
    assert found["none"]["refetches"] == 0
    assert found["masking"]["refetches"] >= 1
    assert float(found["masking"]["spent"]["refetches"]) > 0


@pytest.mark.spec("RP-14")
def test_certain_and_probable_refetches_are_counted_apart(desk, made):
    """Text that is edited and not seen is certain to be fetched; a path that is read might be guessed."""
    filler = "Nothing of interest stands in this line of the log. " * 400
    lines = [user_line("Look.")]
    for at, listed in enumerate(("def frobnicate_quux(): pass\n", "lib/deeply/hidden_module_7431.py\n")):
        reads = call(f"toolu_a{at}", "Read", file_path=f"/{'ab'[at]}.py")
        lines += [assistant_line(reads, id=f"msg_a{at}", usage=usage(100))]
        lines += [user_line([result(f"toolu_a{at}", listed)])]
    for n in range(1, 20):
        reads = call(f"toolu_{n}", "Read", file_path=f"/log{n}.txt")
        lines += [assistant_line(reads, id=f"msg_{n}", usage=usage(1_000 + 5_000 * n))]
        lines += [user_line([result(f"toolu_{n}", filler)])]
    edit = {"file_path": "/a.py", "old_string": "def frobnicate_quux(): pass", "new_string": "pass"}
    hidden = {"file_path": "lib/deeply/hidden_module_7431.py"}
    for name, tool, given in (("toolu_98", "Read", hidden), ("toolu_99", "Edit", edit)):
        lines += [assistant_line(call(name, tool, **given), id=f"msg_{name}", usage=usage(101_000))]
        lines += [user_line([result(name, "ok")])]
    lines.append(assistant_line(text("Done."), id="msg_100", usage=usage(102_000)))
    desk.write(*lines)
    found = rows(made("--policy", "none,masking", "--json"))
    tiers = {name: (row["refetches"], row["probable_refetches"]) for name, row in found.items()}
    assert tiers == {"none": (0, 0), "masking": (1, 1)}


@pytest.mark.spec("RP-8", "CF-3")
def test_the_shipped_policies_can_be_compared_and_combined_with_lifetimes(made):
    names = ["none", "recorded", "claude-code", "when-cold", "clear-keep-3", "masking", "sliding-window"]
    names += ["summarize-85", "clears-only", "none+1h", "none+refresh"]
    found = rows(made("--policy", ",".join(names), "--json"))
    assert list(found) == names
    assert float(found["none+1h"]["spent"]["write_1h"]) > 0
    assert float(found["none"]["spent"]["write_1h"]) == 0


@pytest.mark.spec("RP-9")
def test_no_policy_is_cheaper_than_the_floor(made):
    found = rows(made("--policy", "none,claude-code,masking,oracle", "--json"))
    assert all(float(row["dollars"]) >= float(row["floor"]) > 0 for row in found.values())


@pytest.mark.spec("RP-10")
def test_people_get_a_table_programs_json_and_everybody_a_page(desk, made):
    page = desk.folder / "replay.html"
    table = made("--policy", "none,claude-code", "--html", page, "--no-color").stdout
    assert "claude-code" in table
    assert page.read_text().lower().startswith("<!doctype html>")
    assert "claude-code" in page.read_text()
    assert rows(made("--policy", "none,claude-code", "--json")).keys() == {"none", "claude-code"}


@pytest.mark.spec("RP-11")
def test_the_same_session_gives_the_same_numbers(desk, made):
    first = made("--policy", "none,claude-code,oracle", "--json").stdout
    again = made("--policy", "none,claude-code,oracle", "--json", "--cache", desk.folder / "other").stdout
    assert first == again


@pytest.mark.spec("BY-6")
def test_what_survived_is_counted_for_every_policy(made):
    found = rows(made("--policy", "none,sliding-window", "--json"))
    kinds = {"user_instructions", "paths", "identifiers", "errors"}
    for row in found.values():
        assert row["left"].keys() >= kinds
        assert all(0 <= part["kept"] <= part["total"] for part in row["left"].values())
    assert (
        found["none"]["left"]["user_instructions"]["kept"]
        == found["none"]["left"]["user_instructions"]["total"]
    )


@pytest.mark.spec("BY-10", "RP-7")
def test_savings_are_net_of_what_they_cost_and_shown_when_negative(made):
    found = rows(made("--policy", "none,masking", "--json"))
    for row in found.values():
        parts = sum(float(value) for value in row["spent"].values())
        assert parts == pytest.approx(float(row["dollars"]))
        saved = float(row["against_none"]["dollars"])
        assert saved == pytest.approx(float(found["none"]["dollars"]) - float(row["dollars"]))
    # Masking edits on every turn and so pays for the cache again and again.
    assert float(found["masking"]["against_none"]["dollars"]) < 0
    table = made("--policy", "none,masking", "--no-color").stdout
    assert "-" in next(line for line in table.splitlines() if "masking" in line)
