"""Configuration as `everturn config` and sessions take it (CF)."""

import hashlib
import json
import re

import pytest
from surfaces.desk import assistant_line, text, tool, usage, user_line

from everturn.measure.model_table import add_models

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


# ── models (CF-6) ────────────────────────────────────────────────────────────────────────────────

MINE = """
[models."mine-1"]
based_on = "claude-haiku-4-5"
window = 64_000
max_output = 4_000
input_price = 100
output_price = 1_000
cache_read_price = 10

[models."claude-haiku-4-5"]
input_price = 3
"""


def spoken_by(model):
    line = assistant_line(text("Yes."), usage=usage(10_000, read=10_000, output=10_000))
    line["message"]["model"] = model
    return line


@pytest.fixture
def with_models(desk, project, monkeypatch):
    """The user's own file, for sessions and commands alike."""
    project.write_text(MINE)
    home = {"HOME": str(desk.folder), "XDG_CONFIG_HOME": str(desk.folder / "config")}
    for name, value in home.items():
        monkeypatch.setenv(name, value)
    yield home
    # The rows hold for the whole process.
    add_models({})


@pytest.mark.spec("CF-6")
def test_a_session_uses_the_limits_and_prices_of_a_model_from_the_users_file(desk, with_models):
    desk.write(user_line("Hi."), spoken_by("mine-1"))
    with desk.open(model="mine-1", access="read") as session:
        context, bill = session.context(), session.bill
    assert (context.model, context.window) == ("mine-1", 64_000)
    # 64,000 less 4,000 of output, less the margin of 13,000.
    assert (context.limits.effective, context.limits.auto) == (60_000, 47_000)
    # Per 10,000 tokens: $1 of input, $0.10 of cache reads, $10 of output.
    assert float(bill.dollars) == pytest.approx(11.1)


@pytest.mark.spec("CF-6")
@pytest.mark.parametrize(
    ("model", "dollars", "written"), [("mine-1", 11.1, 1.249625), ("claude-haiku-4-5", 0.083, 0.03748875)]
)
def test_every_command_that_shows_money_uses_the_users_prices(desk, with_models, model, dollars, written):
    desk.write(user_line("Hi."), spoken_by(model))

    def told(*command):
        done = desk.everturn(*command, "--json", **with_models)
        assert done.exit_code == 0, done.stderr
        return json.loads(done.stdout)

    assert told("audit", desk.path)["total"]["dollars"] == pytest.approx(dollars)
    context = told("context", desk.path)
    assert context["model"]["id"] == model
    assert context["window"]["tokens"] == (64_000 if model == "mine-1" else 200_000)
    [row] = [row for row in told("replay", desk.path)["rows"] if row["policy"] == "recorded"]
    # The recording reads 10,000 tokens that somebody else had written, so 9,997 are written, at 1.25 times
    # the input price.
    assert float(row["spent"]["write_5m"]) == pytest.approx(written)


@pytest.mark.spec("CF-6")
def test_a_wrong_entry_is_named_by_every_command_and_by_a_session(desk, with_models, project):
    project.write_text('[models."mine-1"]\nbased_on = "claude-haiku-4-5"\nwindow = "large"\n')
    problem = "models.\"mine-1\".window = 'large', allowed is a whole number, 1 or more."
    desk.write(user_line("Hi."), spoken_by("mine-1"))
    for command in ("context", "audit", "replay"):
        done = desk.everturn(command, desk.path, **with_models)
        assert (done.exit_code, problem in done.stderr) == (1, True), command
    with pytest.raises(Exception, match=re.escape(problem)):
        desk.open()


# ── Claude Code's settings in the chat (CF-4) ────────────────────────────────────────────────────


def settings(folder, name="settings.json", **fields):
    (folder / ".claude").mkdir(exist_ok=True)
    file = folder / ".claude" / name
    file.write_text(json.dumps(fields))
    return file


def compacted(chat, twin, **environment):
    """Whether a chat that has outgrown a low threshold compacts by itself."""
    long = "The login test waits for the token, and the token comes late. " * 600
    session = chat.data / "long.jsonl"
    twin.script("I see.", "Well.")
    small = {"EVERTURN_THRESHOLDS_AUTO_PERCENT": "5", "EVERTURN_COMPACT_STRATEGIES": "extractive"}
    chat(long, "--session", session, **small, **environment)
    chat("And now?", "--session", session, **small, **environment)
    has_boundary = "compact_boundary" in session.read_text()
    session.unlink()
    return has_boundary


@pytest.mark.spec("CF-4")
def test_the_chat_compacts_by_itself_unless_the_users_settings_say_otherwise(chat, twin):
    assert compacted(chat, twin) is True
    settings(chat.home, autoCompactEnabled=False)
    assert compacted(chat, twin) is False
    # A variable of the user's own counts more than a settings file.
    assert compacted(chat, twin, EVERTURN_THRESHOLDS_AUTO_COMPACTION="true") is True


@pytest.mark.spec("CF-4")
@pytest.mark.parametrize("name", ["settings.json", "settings.local.json"])
def test_the_settings_of_a_project_count_only_where_their_digest_is_trusted(chat, twin, name):
    file = settings(chat.project, name, autoCompactEnabled=False)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    twin.script("Hello.")
    told = chat("Hi.").stderr
    assert f"{file}: autoCompactEnabled is ignored" in told
    assert f"hooks.trusted: {digest}" in told
    assert compacted(chat, twin) is True
    trusted = {"EVERTURN_HOOKS_TRUSTED": digest}
    assert compacted(chat, twin, **trusted) is False
    file.write_text(file.read_text() + "\n")
    assert compacted(chat, twin, **trusted) is True


def writes(file):
    command = f"cat > {file}"
    return {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": command}]}]}


@pytest.mark.spec("CF-4")
def test_hooks_of_the_users_settings_run_and_those_of_a_project_only_when_they_are_trusted(chat, twin):
    own, other = chat.home / "own.json", chat.home / "other.json"
    settings(chat.home, hooks=writes(own))
    settings(chat.project, hooks=writes(other))
    twin.script("Hello.", "Hello.", "Hello.")
    told = chat("Hi.").stderr
    assert json.loads(own.read_text())["prompt"] == "Hi."
    assert not other.exists()
    [digest] = re.findall(r"1 hooks do not run, because they are not trusted.*hooks.trusted: (\w{64})", told)
    chat("Hi again.", EVERTURN_HOOKS_TRUSTED=digest)
    assert json.loads(other.read_text())["prompt"] == "Hi again."
    # Whoever changes the hooks has to be trusted again.
    other.unlink()
    settings(chat.project, hooks=writes(f"{other} # changed"))
    chat("And again.", EVERTURN_HOOKS_TRUSTED=digest)
    assert not other.exists()
