"""`everturn replay` as people and programs call it."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from everturn.cli import main

EXAMPLE = Path(__file__).parents[2] / "examples" / "session.jsonl"


def replay(tmp_path, *arguments):
    given = ["replay", *map(str, arguments), "--cache", str(tmp_path / "kept"), "--engine", "here"]
    return CliRunner().invoke(main, given)


@pytest.mark.spec("RP-7", "BY-2")
def test_a_session_under_several_policies_is_a_table(tmp_path):
    done = replay(tmp_path, EXAMPLE, "--policy", "none,recorded,claude-code+1h")
    assert done.exit_code == 0, done.output
    for words in ("policy", "vs recorded", "claude-code+1h", "Why the cache broke", "refetches"):
        assert words in done.stdout


def test_for_programs_it_is_json(tmp_path):
    done = replay(tmp_path, EXAMPLE, "--policy", "none,masking", "--json")
    told = json.loads(done.stdout)
    assert [row["policy"] for row in told["rows"]] == ["none", "masking"]
    assert told["sessions"] == 1
    assert float(told["rows"][1]["against_none"]["dollars"]) < 0


def test_switches_hold_for_every_policy(tmp_path):
    done = replay(tmp_path, EXAMPLE, "--policy", "none,recorded", "--ttl", "1h", "--refresh", "--json")
    assert [row["policy"] for row in json.loads(done.stdout)["rows"]] == [
        "none+1h+refresh",
        "recorded+1h+refresh",
    ]


@pytest.mark.spec("EC-7")
def test_a_caution_holds_for_the_economic_policy_that_names_none(tmp_path):
    policies = "recorded,economic,economic+careful,economic+1h"
    done = replay(tmp_path, EXAMPLE, "--policy", policies, "--caution", "frugal", "--json")
    assert [row["policy"] for row in json.loads(done.stdout)["rows"]] == [
        "recorded",
        "economic+frugal",
        "economic+careful",
        "economic+frugal+1h",
    ]


@pytest.mark.parametrize("policies", ["recorded,claude-code", "economic+careful"])
def test_a_caution_that_no_policy_takes_is_refused(tmp_path, policies):
    done = replay(tmp_path, EXAMPLE, "--policy", policies, "--caution", "frugal")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.endswith("Invalid value for --caution: no policy is `economic` without a caution\n")


def test_the_default_policy_is_among_those_that_are_compared(tmp_path):
    done = replay(tmp_path, EXAMPLE, "--json")
    assert "economic" in [row["policy"] for row in json.loads(done.stdout)["rows"]]


def test_requests_and_page_are_written(tmp_path):
    requests, page = tmp_path / "requests.jsonl", tmp_path / "page.html"
    done = replay(tmp_path, EXAMPLE, "--policy", "recorded", "--requests", requests, "--html", page)
    assert done.exit_code == 0, done.output
    lines = [json.loads(line) for line in requests.read_text().splitlines()]
    assert {line["policy"] for line in lines} == {"recorded"}
    assert page.read_text().startswith("<!doctype html>")


def test_tables_go_into_a_page_between_its_markers(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# A\n<!-- replay: here -->\nold\n<!-- end of replay: here -->\nrest\n")
    assert replay(tmp_path, EXAMPLE, "--policy", "none", "--into", page, "here").exit_code == 0
    text = page.read_text()
    assert text.startswith("# A\n<!-- replay: here -->\n###")
    assert text.endswith("<!-- end of replay: here -->\nrest\n")
    assert "\nold\n" not in text


def test_a_page_without_the_markers_is_left_as_it_is(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# A\n")
    done = replay(tmp_path, EXAMPLE, "--policy", "none", "--into", page, "here")
    assert (done.exit_code, page.read_text()) == (1, "# A\n")
    assert "The page has no markers. Put <!-- replay: here -->" in done.output


def test_an_unknown_policy_is_named_with_the_known_ones(tmp_path):
    done = replay(tmp_path, EXAMPLE, "--policy", "magic")
    assert done.exit_code == 1
    assert "Unknown policy 'magic'. Choose one of: none, recorded" in done.output


def test_nothing_to_replay_is_an_error_with_the_reasons(tmp_path):
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    done = replay(tmp_path, empty)
    assert done.exit_code == 1
    assert "No session to replay." in done.output
    assert "the file is empty" in done.output
