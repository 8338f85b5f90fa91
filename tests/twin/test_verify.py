"""`everturn twin verify`, against a second twin with other options. Nothing real is contacted."""

import json
from contextlib import contextmanager
from datetime import date

import pytest
from click.testing import CliRunner

from everturn.cli import main
from everturn.twin.app import serve_twin
from everturn.twin.build import build_twin, load_options
from everturn.twin.faults import FaultInjector, InjectedFault
from everturn.twin.options import TwinOptions
from everturn.twin.options_file import read_options
from everturn.twin.speaker import script_reply
from everturn.twin.transport import TwinTransport
from everturn.twin.verify import senders
from everturn.twin.verify.compare import find_value
from everturn.twin.verify.probes import PROBES
from everturn.twin.verify.run import learn_options, rehearse, verify
from everturn.twin.verify.senders import make_twin_sender, open_http_sender

DAY = date(2026, 11, 15)
NUMBERS = script_reply("1 2 3 4 5 6 7 8 9", when="separated by spaces")
COUNTS = {"count.text", "count.system", "count.results", "edit.count"}


@contextmanager
def other_twin(options, **settings):
    """A twin with a virtual clock on a socket."""
    twin = build_twin(options=options, script=[NUMBERS], **settings)
    with serve_twin(twin) as url:
        yield twin, url


def compared(options, *, ours=None, budget=1.0, probes=PROBES, **settings):
    """The results of all probes against a twin with these options."""
    plays = rehearse(probes, lambda probe: make_twin_sender(probe, ours or TwinOptions(), salt="s"), on=DAY)
    twin = build_twin(options=options, script=[NUMBERS], **settings)
    waits = {"wait": twin.clock.advance, "transport": TwinTransport(twin)}
    with open_http_sender("http://twin", "key", salt="s", **waits) as send:
        return list(verify(plays, send, budget=budget, on=DAY))


def differing(results):
    assert {result.verdict for result in results} <= {"same", "differs"}
    return {result.probe.id for result in results if result.verdict == "differs"}


def test_there_are_enough_probes_and_each_has_its_own_id_and_question():
    assert 40 <= len(PROBES) <= 60
    assert len({probe.id for probe in PROBES}) == len({probe.asks for probe in PROBES}) == len(PROBES)
    assert sum(probe.is_slow for probe in PROBES) == 4


def test_two_equal_twins_differ_in_nothing_and_cost_what_was_estimated():
    plays = rehearse(PROBES, lambda probe: make_twin_sender(probe, TwinOptions(), salt="s"), on=DAY)
    results = compared(TwinOptions())
    assert differing(results) == set()
    assert learn_options(results) == {}
    assert sum(result.dollars for result in results) == pytest.approx(
        sum(play.dollars for play in plays), rel=0.05
    )
    assert 0 < sum(play.dollars for play in plays) < 0.05


OTHERS = [
    ({"unknown_betas": "accept"}, {"error.unknown-beta"}),
    ({"open_schemas": "accept"}, {"error.open-schema"}),
    ({"temperature_with_top_p": "accept"}, {"error.samplers"}),
    ({"mislabeled_images": "accept"}, {"error.media-type"}),
    ({"broken_base64": "accept"}, {"error.base64"}),
    ({"version_header": "required"}, {"error.version"}),
    ({"thinking_display": "summarized"}, {"thinking.display"}),
    ({"effort_invalidates": "system"}, {"cache.effort"}),
    ({"thinking_invalidates": "tools"}, {"cache.thinking"}),
    ({"output_format_invalidates": False}, {"cache.format"}),
    ({"betas_invalidate": True}, {"cache.betas"}),
    ({"lookback": 19}, {"cache.lookback-19"}),
    ({"lookback": 21}, {"cache.lookback-20"}),
    ({"runs_are_one_position": False}, {"cache.runs"}),
    ({"min_cache": {"claude-sonnet-5-5": 512}}, {"cache.minimum"}),
    ({"longer_marker_lengthens": True}, {"cache.longer-marker"}),
    ({"hour_survives_prefix": False}, {"cache.hour-over-five"}),
    ({"chars_per_token": {"claude-haiku-5-5": 3.2}}, COUNTS),
]


@pytest.mark.spec("TW-11")
@pytest.mark.parametrize(("other", "ids"), OTHERS)
def test_the_verdicts_name_exactly_the_probes_that_differ_and_the_option_is_learned(other, ids):
    results = compared(read_options(other))
    assert differing(results) == ids
    learned = learn_options(results)
    if "chars_per_token" in other:
        assert learned["chars_per_token"]["claude-haiku-5-5"] == pytest.approx(3.2, rel=0.02)
    else:
        assert learned == other
    assert differing(compared(read_options(other), ours=read_options(learned))) == set()


def test_paid_probes_are_not_run_beyond_the_budget_and_free_ones_are():
    results = compared(TwinOptions(), budget=0.0)
    not_run = {result.probe.id for result in results if result.verdict == "not run"}
    assert {"cache.read", "stop.sequence", "compact.now"} < not_run
    assert {result.verdict for result in results if result.probe.id not in not_run} == {"same"}
    assert sum(result.dollars for result in results) == 0


def test_an_overloaded_server_is_no_answer_and_is_asked_three_times():
    fault = FaultInjector([InjectedFault("overloaded", times=3)])
    probes = [probe for probe in PROBES if probe.id == "stop.max-tokens"]
    (result,) = compared(TwinOptions(), probes=probes, faults=fault)
    assert (result.verdict, result.reason) == ("no answer", "529 Overloaded")
    (result,) = compared(
        TwinOptions(), probes=probes, faults=FaultInjector([InjectedFault("overloaded", times=2)])
    )
    assert result.verdict == "same"


def test_a_server_that_is_not_there_is_no_answer():
    probe = next(probe for probe in PROBES if probe.id == "error.no-messages")
    plays = rehearse([probe], lambda probe: make_twin_sender(probe, TwinOptions(), salt="s"), on=DAY)
    with open_http_sender("http://127.0.0.1:9", "key", salt="s") as send:
        (result,) = verify(plays, send, budget=1, on=DAY)
    assert result.verdict == "no answer"
    assert "http://127.0.0.1:9 did not answer" in result.reason


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("a.0.b", 1),
        ("a.-1.b", 2),
        ("a.*.b", [1, 2]),
        ("a.7.b", None),
        ("x.y", None),
        ("a", [{"b": 1}, {"b": 2}]),
    ],
)
def test_a_path_finds_a_value_or_none(path, value):
    assert find_value({"a": [{"b": 1}, {"b": 2}]}, path) == value


# ── the command ──────────────────────────────────────────────────────────────────────────────────


def run(*arguments, **more):
    return CliRunner().invoke(main, ["twin", "verify", *arguments], **more)


@pytest.mark.spec("TW-11")
def test_the_command_shows_a_table_and_writes_json_and_options_that_the_twin_accepts(tmp_path):
    found, learned = tmp_path / "found.json", tmp_path / "learned.json"
    with other_twin(read_options({"unknown_betas": "accept"})) as (_, url):
        done = run("--against", url, "--yes", "--json", str(found), "--write-options", str(learned))
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert lines[0].startswith(f"51 probes with 65 requests to {url}: about $0.0")
    assert "error.unknown-beta      differs    a beta that does not exist" in lines
    assert "                        status of request 1: twin 400, API 200" in lines
    assert lines[-1].startswith("50 same, 1 differs; $0.0")
    assert load_options(learned) == TwinOptions(unknown_betas="accept")
    whole = json.loads(found.read_text())
    assert (whole["against"], whole["learned"]) == (url, {"unknown_betas": "accept"})
    assert [probe["id"] for probe in whole["probes"] if probe["verdict"] == "differs"] == [
        "error.unknown-beta"
    ]


def test_nothing_is_sent_before_it_is_confirmed():
    with other_twin(TwinOptions()) as (twin, url):
        done = run("--against", url, input="n\n")
        assert twin.ledger() == []
    assert (done.exit_code, done.output.splitlines()[-1]) == (1, "Error: Nothing was sent.")


def test_the_real_api_needs_a_key_and_is_not_contacted_without_one(monkeypatch):
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.setattr(senders.httpx2, "Client", pytest.fail)
    done = run("--yes")
    assert done.exit_code == 1
    assert "ANTHROPIC_API_KEY is not set" in done.output


def test_a_key_is_sent_to_the_server_and_is_in_no_output(monkeypatch, tmp_path):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-very-secret")
    with other_twin(TwinOptions()) as (twin, url):
        done = run("--against", url, "--yes", "--only", "error", "--json", str(tmp_path / "found.json"))
        assert len(twin.ledger("sk-ant-very-secret")) == len(twin.ledger()) > 10
    assert "very-secret" not in done.output + (tmp_path / "found.json").read_text()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--only", "nothing"), "No probe is called 'nothing'. Groups of probes: count, cache, error"),
        (("--only", "cache.expiry"), "These probes wait for minutes; add --slow"),
    ],
)
def test_a_wrong_choice_of_probes_is_explained(arguments, says):
    done = run("--against", "http://127.0.0.1:9", *arguments)
    assert done.exit_code == 1
    assert says in done.output


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"lokback": 3}, "'lokback' is not an option of the twin. Did you mean lookback?"),
        ({"lookback": "x"}, "The option lookback cannot be 'x': Expected `int`, got `str`"),
        (
            {"thinking_display": "loud"},
            "The option thinking_display cannot be 'loud': Invalid enum value 'loud'",
        ),
        ({"counter": 1}, "'counter' is not an option of the twin."),
    ],
)
def test_an_options_file_with_a_mistake_is_explained(tmp_path, options, says):
    file = tmp_path / "options.json"
    file.write_text(json.dumps(options))
    done = CliRunner().invoke(main, ["twin", "--port", "0", "--options", str(file)])
    assert done.exit_code == 1
    assert says in done.output


def test_every_option_can_be_in_a_file():
    given = {
        "min_cache": {"claude-opus-5": 5},
        "account_created": "2026-01-01",
        "starts_at": "2026-12-01T00:00:00Z",
        "extensions": ["cache_edits"],
        "batch_seconds": 5,
    }
    options = read_options(given)
    assert (options.account_created, options.extensions) == (date(2026, 1, 1), frozenset({"cache_edits"}))
