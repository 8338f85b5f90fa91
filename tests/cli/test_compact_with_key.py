"""`everturn compact` where there is a key: a model is asked over the network, as people's machines do."""

import json
from pathlib import Path

import pytest
from cli.test_compact import long_session
from cli.test_compact import run as run_without_key
from click.testing import CliRunner, Result
from scripted_twin import scripted_options

from everturn.cli import main
from everturn.session.recorded import open_session
from everturn.twin.app import serve_twin
from everturn.twin.speaker import script_reply
from everturn.twin.testing import TwinForTests

KEY = "sk-ant-canary-of-the-test"
SUMMARY = (
    "<summary>\n1. Primary request and intent: the login test fails because it does not wait for the token.\n"
    "</summary>"
)


@pytest.fixture
def session(tmp_path: Path) -> Path:
    (tmp_path / "session.jsonl").write_bytes(long_session().to_bytes())
    return tmp_path / "session.jsonl"


def run(box: TwinForTests, *args: object, variable: str = "ANTHROPIC_API_KEY") -> Result:
    with serve_twin(box.twin) as address:
        env = {
            "COLUMNS": "100",
            "NO_COLOR": None,
            "FORCE_COLOR": None,
            "ANTHROPIC_API_KEY": None,
            variable: KEY,
            "ANTHROPIC_BASE_URL": address,
        }
        return CliRunner(env=env).invoke(main, ["compact", *map(str, args)])


@pytest.mark.spec("CP-27", "CF-2")
@pytest.mark.parametrize("variable", ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"])
def test_with_a_key_a_model_writes_the_summary_at_the_address_in_the_environment(session, variable):
    box = TwinForTests(options=scripted_options())
    box.twin.speaker.add([script_reply(SUMMARY, when="Write a summary")])
    done = run(box, session, "--instructions", "Name the token.", variable=variable)
    assert (done.exit_code, done.stderr) == (0, "")
    (asked,) = box.ledger
    assert asked["status"] == 200
    view = open_session(session).view
    assert "does not wait for the token" in "".join(block.raw.decode() for block in view.records[1].blocks)
    assert KEY.encode() not in b"".join(path.read_bytes() for path in session.parent.iterdir())
    assert KEY not in done.stdout


def test_the_price_is_that_of_this_compaction_and_not_of_earlier_ones(session):
    box = TwinForTests(options=scripted_options())
    box.twin.speaker.add([script_reply(SUMMARY, when="Write a summary")])
    paid = json.loads(run(box, session, "--up-to", "u2", "--json").stdout)
    assert paid["dollars"] == pytest.approx(box.ledger[0]["dollars"]) != 0
    free = run_without_key(session)
    assert (free.exit_code, free.stderr) == (0, "")
    assert "price nothing: no call was made" in " ".join(free.stdout.split())


def test_a_provider_that_is_down_costs_no_session(session):
    box = TwinForTests(options=scripted_options())
    box.faults({"kind": "request_too_large", "times": 9})
    done = run(box, session)
    assert (done.exit_code, done.stderr) == (0, "")
    said = " ".join(done.stdout.split())
    assert "summary by no model: put together from the session" in said
    assert "tried first a model: " in said
    assert len(open_session(session).views_before) == 1
