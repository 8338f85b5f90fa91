"""`everturn replay`: what sessions would have cost (RP, BY)."""

import json
from datetime import datetime
from shutil import copy

import pytest
from surfaces.desk import assistant_line, call, result, text, usage, user_line


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


@pytest.mark.spec("RP-5")
def test_a_compaction_in_a_replay_is_paid_for(desk, made):
    filler = "Nothing of interest stands in this line of the log. " * 640
    lines = [user_line("Look.")]
    for n in range(24):
        reads = call(f"toolu_{n}", "Read", file_path=f"/log{n}.txt")
        lines.append(assistant_line(reads, id=f"msg_{n}", usage=usage(1_000 + n * 8_000, output=50)))
        lines.append(user_line([result(f"toolu_{n}", filler)]))
    desk.write(*lines, assistant_line(text("Done."), id="msg_99", usage=usage(193_000, output=50)))
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
