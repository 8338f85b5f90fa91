"""Configuration as `everturn config` and sessions take it (CF)."""

import json

import pytest
from surfaces.desk import tool

READ = tool("Read", lambda given: "line of code\n" * 400)


def shown(desk, *options, **environment):
    home = {"HOME": str(desk.folder), "XDG_CONFIG_HOME": str(desk.folder / "config")}
    return desk.everturn("config", *options, **home, **environment)


@pytest.fixture
def project(desk, monkeypatch):
    monkeypatch.chdir(desk.folder)
    own = desk.folder / "config" / "everturn"
    own.mkdir(parents=True)
    return own / "config.toml"


@pytest.mark.spec("CF-1")
def test_environment_wins_over_a_file_and_a_file_over_the_default(desk, project):
    def keep(**environment):
        out = shown(desk, **environment).stdout
        return next(line.split() for line in out.splitlines() if "micro.time.keep" in line)

    assert "5" in keep()
    project.write_text("[micro.time]\nkeep = 7\n")
    assert "7" in keep()
    assert "9" in keep(EVERTURN_MICRO_TIME_KEEP="9")


@pytest.mark.spec("CF-1")
def test_a_wrong_value_is_named_with_its_key_and_what_is_allowed(desk, project):
    project.write_text("[micro.time]\nkeep = 'many'\n")
    done = shown(desk)
    assert done.exit_code == 1
    assert [part for part in ("micro.time.keep", "'many'", "config.toml") if part not in done.stderr] == []


@pytest.mark.spec("CF-3")
@pytest.mark.parametrize(
    ("policy", "clears"), [("claude-code", 3), ("when-cold", 3), ("none", 0), ("masking", 0), ("frugal", 3)]
)
def test_a_policy_is_chosen_by_its_name(desk, policy, clears):
    with desk.open(tools=[READ], policy=policy) as session:
        desk.use_tool(session, 8)
        desk.twin.advance(3_601)
        desk.talk(session, 1)
    cleared = json.dumps(desk.bodies[-1]["messages"]).count("[Old tool result content cleared]")
    assert cleared == clears
