"""`everturn replay`: what sessions would have cost (RP, BY)."""

import json
from datetime import datetime
from shutil import copy

import pytest
from surfaces.desk import assistant_line, call, result, text, usage, user_line

from everturn.twin.app import serve_twin


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


@pytest.mark.spec("RP-3")
def test_recorded_shows_its_error_against_the_reported_usage_in_every_output(desk, made):
    filler = "Nothing of interest stands in this line of the log. " * 300
    reported = [usage(10, 9_000, 0, 60), usage(12, 4_000, 9_000, 60), usage(15, 9_000, 9_000, 60)]
    lines = [user_line("Look.")]
    for n, each in enumerate(reported):
        lines.append(assistant_line(call(f"toolu_{n}", "Read", file_path=f"/{n}"), id=f"msg_{n}", usage=each))
        lines.append(user_line([result(f"toolu_{n}", filler)]))
    desk.write(*lines)
    requests, page = desk.folder / "requests.jsonl", desk.folder / "page.html"
    options = ("--policy", "recorded,none", "--requests", requests, "--html", page)
    found = rows(made(*options, "--json"))
    replayed = [json.loads(line) for line in requests.read_text().splitlines()]
    replayed = [line["usage"] for line in replayed if line["policy"] == "recorded"]

    def total(usages, name):
        return sum(each[name] for each in usages)

    def near(name, share, of=3):
        pairs = zip(replayed, reported, strict=True)
        return sum(abs(a[name] - b[name]) <= share * context(b) for a, b in pairs) / of

    def context(each):
        names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
        return sum(each[name] for name in names)

    def dollars(usages):
        names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
        return dollars_of(*(total(usages, name) for name in names))

    read, written = "cache_read_input_tokens", "cache_creation_input_tokens"
    pairs = list(zip(map(context, replayed), map(context, reported), strict=True))
    error = dollars(replayed) / dollars(reported) - 1
    assert found["none"]["error"] is None
    assert found["recorded"]["error"] == {
        "calls": 3,
        "context_within_1": sum(abs(a - b) <= 0.01 * b for a, b in pairs) / 3,
        "reads_within_5": near(read, 0.05),
        "writes_within_5": near(written, 0.05),
        "read": pytest.approx(total(replayed, read) / total(reported, read) - 1),
        "written": pytest.approx(total(replayed, written) / total(reported, written) - 1),
        "input_dollars": pytest.approx(error),
        "reported_input_dollars": "0.029337",
    }
    table = made("--policy", "recorded,none", "--no-color").stdout
    head, recorded, none = table.splitlines()[1:4]
    at = head.split().index("error")
    assert (recorded.split()[at], none.split()[at]) == (f"{error:+.1%}", "-")
    told = f"recorded against the usage that the recording reports (3 calls): input dollars {error:+.1%}"
    assert told in " ".join(table.split())
    # On the page: the table of policies, the tile, and the section of the session.
    shown = page.read_text()
    assert f"<td>{error:+.1%}</td>".replace("-", "\N{MINUS SIGN}") in shown
    assert f"input {error:+.1%} against reported usage".replace(" -", " \N{MINUS SIGN}") in shown
    assert shown.count(told) == 2


@pytest.mark.spec("RP-3")
def test_recorded_says_so_where_nothing_was_reported(desk, made):
    desk.write(user_line("Look."), assistant_line(text("Done.")))
    assert rows(made("--policy", "recorded", "--json"))["recorded"]["error"] is None
    table = " ".join(made("--policy", "recorded", "--no-color").stdout.split())
    assert "recorded: the recording reports no usage, so the error of this row is not known." in table


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


@pytest.mark.spec("RP-8", "CF-3")
def test_the_shipped_policies_can_be_compared_and_combined_with_lifetimes(made):
    names = ["none", "recorded", "claude-code", "when-cold", "clear-keep-3", "masking", "sliding-window"]
    names += ["summarize-85", "oracle", "none+1h", "none+refresh"]
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
