"""Configuration: which source wins, what each key may be, and that a wrong value says everything at once."""

import json
from datetime import timedelta
from pathlib import Path
from typing import get_args, get_origin

import msgspec
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from everturn.cli import main
from everturn.decide.options import Options, Secret
from everturn.decide.policy import POLICIES, get_policy
from everturn.errors import InputError, UsageError
from everturn.session.config.keys import (
    BOUNDS,
    KEYS,
    Bounds,
    InvalidConfigValue,
    allowed,
    choices_of,
    parse_text_value,
    parse_value,
)
from everturn.session.config.load import config_file, config_files, layer_options, value_at
from everturn.session.config.sources import KNOWN_VARIABLES, OTHERS, TomlFile, from_environment

CANARY = "sk-ant-canary-0123456789"


def toml(text: str, whose="user") -> TomlFile:
    return TomlFile(text, "c.toml", whose)


def problem_of(**sources) -> str:
    wanted = UsageError if sources.keys() == {"arguments"} else InputError
    with pytest.raises(wanted) as raised:
        layer_options(**sources)
    return str(raised.value)


# ── layers ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("CF-1")
def test_later_sources_win_and_every_value_knows_where_it_came_from():
    files = [toml("[micro.time]\nkeep = 1\n[notes]\nfirst = 1\ngrowth = 1\ntool_calls = 1")]
    environment = {"EVERTURN_NOTES_FIRST": "2", "EVERTURN_NOTES_GROWTH": "2"}
    loaded = layer_options(files, environment, {"notes.growth": 3})
    notes = loaded.options.notes
    assert (loaded.options.micro.time.keep, notes.tool_calls, notes.first, notes.growth) == (1, 1, 2, 3)
    keys = ("micro.time.keep", "notes.tool_calls", "notes.first", "notes.growth", "notes.section")
    assert [loaded.origins[key] for key in keys] == [
        "c.toml", "c.toml", "environment EVERTURN_NOTES_FIRST", "argument", "default",
    ]  # fmt: skip


@pytest.mark.spec("CF-1")
def test_without_any_source_everything_is_its_default():
    loaded = layer_options()
    assert loaded.options == get_policy("economic").options == Options()
    assert set(loaded.origins.values()) == {"default"}
    assert loaded.values().keys() == KEYS.keys()


@pytest.mark.spec("CF-3")
@pytest.mark.parametrize("name", sorted(POLICIES))
def test_a_policy_is_a_bundle_that_single_values_can_change(name):
    loaded = layer_options([toml(f"policy = '{name}'")])
    assert loaded.options == get_policy(name).options
    changed = layer_options(
        [toml(f"policy = '{name}'")], arguments={"micro": {"budget": {"keep": 9}}}
    ).options
    assert changed.micro.budget.keep == 9
    assert changed.steps == get_policy(name).options.steps


@pytest.mark.spec("CF-3")
def test_what_a_policy_sets_is_said_to_come_from_it():
    origins = layer_options(environment={"EVERTURN_POLICY": "frugal"}).origins
    assert origins["micro.budget.where"] == "policy frugal"
    assert origins["micro.budget.keep"] == "default"


def test_several_files_are_read_in_their_order():
    assert layer_options([toml("window = 1"), toml("window = 2", "project")]).options.window == 2


# ── switches and known names ─────────────────────────────────────────────────────────────────────


@pytest.mark.spec("CF-2")
@pytest.mark.parametrize(
    ("variable", "text", "key", "value"),
    [
        ("DISABLE_COMPACT", "1", "compact.enabled", False),
        ("DISABLE_AUTO_COMPACT", "true", "thresholds.auto_compaction", False),
        ("DISABLE_MICROCOMPACT", "YES", "micro.enabled", False),
        ("DISABLE_COMPACT", "0", "compact.enabled", True),
        ("CLAUDE_AUTOCOMPACT_PCT_OVERRIDE", "62.5", "thresholds.auto_percent", 62.5),
        ("CLAUDE_CODE_AUTO_COMPACT_WINDOW", "400000", "window", 400_000),
        ("API_MAX_INPUT_TOKENS", "150_000", "micro.declarative.trigger", 150_000),
        ("API_TARGET_INPUT_TOKENS", "30000", "micro.declarative.target", 30_000),
        ("ENABLE_PROMPT_CACHING_1H", "1", "cache.ttl.eligible", True),
        ("ENABLE_PROMPT_CACHING_1H_BEDROCK", "1", "cache.ttl.bedrock_1h", True),
        ("ANTHROPIC_MODEL", "claude-opus-5", "model", "claude-opus-5"),
        ("ANTHROPIC_API_KEY", CANARY, "provider.api_key", Secret(CANARY)),
        ("ANTHROPIC_AUTH_TOKEN", CANARY, "provider.auth_token", Secret(CANARY)),
        ("ANTHROPIC_BASE_URL", "http://127.0.0.1:8377", "provider.base_url", "http://127.0.0.1:8377"),
    ],
)
def test_names_that_users_know_are_honoured(variable, text, key, value):
    loaded = layer_options(environment={variable: text})
    assert value_at(loaded.options, key) == value
    is_default = value == KEYS[key].default
    assert loaded.origins[key] == ("default" if is_default else f"environment {variable}")


def test_an_empty_variable_is_not_set():
    assert layer_options(environment={known.variable: " " for known in KNOWN_VARIABLES}).options == Options()


@pytest.mark.spec("CF-2")
@pytest.mark.parametrize("text", ["0", "-5", "100.5", "nan", "inf", "abc"])
def test_a_percentage_out_of_range_is_ignored_and_that_is_said(text):
    loaded = layer_options(environment={"CLAUDE_AUTOCOMPACT_PCT_OVERRIDE": text})
    assert loaded.options.thresholds.auto_percent is None
    assert loaded.notes == (
        f"environment CLAUDE_AUTOCOMPACT_PCT_OVERRIDE = {text!r} is ignored: "
        "allowed is a number above 0 and at most 100",
    )


def in_force(options: Options) -> dict[str, object]:
    """What the switches of these options come to."""
    return {
        "steps": options.steps,
        "declares": options.declares,
        "auto": options.effective_thresholds.auto_compaction,
        "compacts": options.may_compact,
        "notes": options.keeps_notes,
    }


@pytest.mark.spec("CF-2")
def test_each_switch_takes_its_own_away_and_nothing_else():
    whole = Options()
    for step in whole.steps:
        off = layer_options(arguments={f"micro.{step}.enabled": False}).options
        assert in_force(off) == {**in_force(whole), "steps": tuple(s for s in whole.steps if s != step)}
    off = layer_options(arguments={"micro.declarative.enabled": False}).options
    assert in_force(off) == {**in_force(whole), "declares": False}
    micro = layer_options(environment={"DISABLE_MICROCOMPACT": "1"}).options
    assert in_force(micro) == {**in_force(whole), "steps": (), "declares": False}
    notes = {"notes.enabled": True}
    auto = layer_options(environment={"DISABLE_AUTO_COMPACT": "1"}, arguments=notes).options
    assert in_force(auto) == {**in_force(whole), "auto": False, "notes": True}
    compact = layer_options(environment={"DISABLE_COMPACT": "1"}, arguments=notes).options
    assert in_force(compact) == {**in_force(whole), "auto": False, "compacts": False}


@pytest.mark.spec("CF-2")
def test_one_switch_turns_everything_off():
    options = layer_options(arguments={"enabled": False, "notes.enabled": True}).options
    off = {"steps": (), "declares": False, "auto": False, "compacts": False, "notes": False}
    assert in_force(options) == off


def test_every_step_has_a_switch():
    steps = {step for each in POLICIES.values() for step in each.options.steps}
    assert {f"micro.{step}.enabled" for step in steps} <= KEYS.keys()


@pytest.mark.spec("CF-2")
@pytest.mark.parametrize("key", KEYS.values(), ids=lambda key: key.name)
def test_every_key_can_be_set_from_the_environment(key):
    texts = {bool: "1", int: "7", float: "0.5", timedelta: "90s", str: "words", Secret: "words"}
    special = {
        "policy": "none",
        "provider.base_url": "https://example.org/v1",
        "thinking.budget_tokens": "2048",
        "economy.pauses": "290 104/198,3890 7/94",
        "economy.reuse": "reads 300 58/173 45/294 39/755",
    }
    kind = get_origin(key.type)
    text = (
        special.get(key.name)
        or texts.get(key.type)
        or (", ".join(choices_of(key)) or "a, b" if kind is tuple else get_args(key.type)[-1])
    )
    loaded = layer_options(environment={key.variable: text})
    assert value_at(loaded.options, key.name) == parse_text_value(key, text)
    assert loaded.origins[key.name] == f"environment {key.variable}"


def test_no_two_keys_share_a_variable():
    variables = [key.variable for key in KEYS.values()]
    assert len(set(variables)) == len(variables)
    assert not OTHERS & set(variables)
    assert BOUNDS.keys() <= KEYS.keys()


# ── wrong values ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("CF-1")
@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "[micro.time]\nkeep = 'five'",
            "micro.time.keep = 'five', allowed is a whole number, from 0 to 10,000,000.",
        ),
        (
            "[micro.time]\nkeep = true",
            "micro.time.keep = True, allowed is a whole number, from 0 to 10,000,000.",
        ),
        ("[micro.time]\nkeep = -1", "micro.time.keep = -1, allowed is a whole number, from 0 to 10,000,000."),
        (
            "[micro.time]\nkeep = 1.5",
            "micro.time.keep = 1.5, allowed is a whole number, from 0 to 10,000,000.",
        ),
        (
            "[micro.time]\nidle = 'soon'",
            'micro.time.idle = \'soon\', allowed is seconds, or a text such as "90s", "60m", "1h".',
        ),
        (
            "[micro.window]\nshare = 1.5",
            "micro.window.share = 1.5, allowed is a number above 0 and at most 1.",
        ),
        (
            "[micro.budget]\nwhere = 'here'",
            "micro.budget.where = 'here', allowed is one of uncached, unprotected, everywhere.",
        ),
        (
            "[thinking]\ntype = 'foo'",
            "thinking.type = 'foo', allowed is one of enabled, adaptive, disabled, "
            'or "" to leave it unset.',
        ),
        ("[cache.ttl]\nsources = 'main'", "cache.ttl.sources = 'main', allowed is a list of texts."),
        (
            "[micro.time]\nenabled = 'no'",
            "micro.time.enabled = 'no', allowed is true or false.",
        ),
        (
            "[thresholds]\nauto_percent = nan",
            "thresholds.auto_percent = nan, allowed is a number above 0 and at most 100.",
        ),
        ("model = 3", "model = 3, allowed is a text."),
        ("[micro.time]\nkept = 1", "no key is named 'micro.time.kept'. Did you mean micro.time.keep?"),
        ("save_at_least = 1", "no key is named 'save_at_least'. Did you mean micro.budget.save_at_least?"),
        ("[zzz]\nq = 1", "no key is named 'zzz.q'. `everturn config` lists all keys."),
        ("recall = 3", "recall = 3, but recall is a section with keys such as recall.enabled."),
    ],
)
def test_a_wrong_value_is_an_error_with_key_value_origin_and_what_is_allowed(text, says):
    assert problem_of(files=[toml(text)]) == f"c.toml: {says}"


@pytest.mark.spec("CF-1")
def test_a_wrong_variable_and_a_wrong_argument_say_where_they_stand():
    assert problem_of(environment={"API_MAX_INPUT_TOKENS": "many"}) == (
        "environment API_MAX_INPUT_TOKENS: micro.declarative.trigger = 'many', "
        "allowed is a whole number, from 0 to 10,000,000."
    )
    assert problem_of(environment={"DISABLE_COMPACT": "perhaps"}) == (
        "environment DISABLE_COMPACT = 'perhaps', allowed is 1 or 0."
    )
    assert problem_of(environment={"EVERTURN_NOTES_FRIST": "1"}) == (
        "environment EVERTURN_NOTES_FRIST: no key has this name. Did you mean EVERTURN_NOTES_FIRST?"
    )
    assert problem_of(arguments={"policy": "frugl"}) == (
        f"argument: policy = 'frugl', allowed is one of {', '.join(sorted(POLICIES))}."
    )


def test_all_that_is_wrong_is_told_at_once():
    said = problem_of(
        files=[toml("window = 0\n[notes]\nfirst = -1")], environment={"API_MAX_INPUT_TOKENS": "x"}
    )
    assert said.splitlines()[0] == "The configuration has 3 problems:"
    assert len(said.splitlines()) == 4


def test_a_file_that_is_no_toml_says_where_it_breaks():
    assert problem_of(files=[toml("a = ")]).startswith("c.toml is not valid TOML: Invalid value (at ")


def test_variables_of_others_are_left_alone():
    assert layer_options(environment=dict.fromkeys(OTHERS, "x") | {"PATH": "/bin"}).options == Options()


ANYTHING = (st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.timedeltas(), st.binary())


@given(st.sampled_from(sorted(KEYS)), st.one_of(*ANYTHING, st.lists(st.text(max_size=3), max_size=3)))
def test_no_value_is_ever_taken_for_what_it_is_not(name, value):
    key = KEYS[name]
    try:
        found = parse_value(key, value)
    except InvalidConfigValue:
        assert allowed(key)
        return
    kind = get_origin(key.type) or key.type
    assert isinstance(found, tuple if kind is tuple else key.type if isinstance(kind, type) else str)
    if key.type in (int, float):
        assert key.bounds.hold(found)
    if value is True or value is False:
        assert key.type is bool


@pytest.mark.parametrize(
    ("given", "seconds"),
    [("90s", 90), ("60m", 3600), ("1.5h", 5400), ("2d", 172_800), ("250ms", 0.25), (15, 15), ("15", 15)],
)
def test_durations_are_seconds_or_have_a_unit(given, seconds):
    assert parse_value(KEYS["micro.time.idle"], given) == timedelta(seconds=seconds)


def test_bounds_are_told_as_they_hold():
    assert [str(Bounds()), str(Bounds(0, 1)), str(Bounds(0, 1, is_open=True))] == [
        "0 or more", "from 0 to 1", "above 0 and at most 1",
    ]  # fmt: skip


# ── secrets, and what a project may not choose ───────────────────────────────────────────────────


def test_a_key_is_shown_nowhere():
    loaded = layer_options(environment={"ANTHROPIC_API_KEY": CANARY})
    assert loaded.options.provider.api_key.reveal() == CANARY
    assert CANARY not in repr(loaded) + str(loaded.options) + f"{loaded.options.provider.api_key!s}"
    with pytest.raises(TypeError):
        msgspec.json.encode(loaded.options)
    assert CANARY not in problem_of(files=[toml(f"[provider]\napi_key = ['{CANARY}']")])
    assert CANARY not in problem_of(environment={"ANTHROPIC_BASE_URL": f"https://me:{CANARY}@example.org"})


def test_a_projects_file_cannot_say_where_the_key_is_sent():
    text = "window = 5\n[provider]\nbase_url = 'https://evil.example'\napi_key = 'x'"
    loaded = layer_options([toml(text, "project")], {"ANTHROPIC_API_KEY": CANARY})
    assert (loaded.options.window, loaded.options.provider.base_url) == (5, "")
    assert loaded.options.provider.api_key == Secret(CANARY)
    assert loaded.notes == (
        "c.toml: provider.base_url is ignored; a project's file may not set it",
        "c.toml: provider.api_key is ignored; a project's file may not set it",
    )
    assert layer_options([toml("[provider]\nbase_url = 'https://mine.example'")]).options.provider.base_url


# ── files and the command ────────────────────────────────────────────────────────────────────────


def test_the_users_file_comes_before_the_projects(tmp_path: Path):
    own, cwd = tmp_path / ".config" / "everturn", tmp_path / "project"
    own.mkdir(parents=True)
    cwd.mkdir()
    assert config_files({}, home=tmp_path, cwd=cwd) == ()
    (own / "config.toml").write_text("window = 1")
    (cwd / "everturn.toml").write_text("window = 2")
    files = config_files({}, home=tmp_path, cwd=cwd)
    assert [(file.text, file.whose) for file in files] == [("window = 1", "user"), ("window = 2", "project")]
    assert config_files({"XDG_CONFIG_HOME": str(tmp_path / "no")}, home=tmp_path, cwd=cwd) == files[1:]


def test_a_file_that_was_named_must_be_there(tmp_path: Path):
    gone = tmp_path / "gone.toml"
    with pytest.raises(InputError, match=r"CONFIG names the file .*gone\.toml, which does not exist"):
        config_files({"EVERTURN_CONFIG": str(gone)}, home=tmp_path, cwd=tmp_path)
    with pytest.raises(InputError, match=r"No file .*gone\.toml found"):
        config_file(gone)
    gone.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="cannot be read"):
        config_file(gone)


def run(tmp_path: Path, *arguments: str, **environment: str):
    clean = {known.variable: "" for known in KNOWN_VARIABLES} | {"HOME": str(tmp_path), "XDG_CONFIG_HOME": ""}
    return CliRunner(env=clean | environment).invoke(main, ["config", *arguments])


def test_the_command_shows_what_is_in_force_and_where_it_came_from(tmp_path: Path):
    file = tmp_path / "mine.toml"
    file.write_text("policy = 'frugal'")
    done = run(tmp_path, "--changed", "--file", str(file), "--set", "window=9", ANTHROPIC_API_KEY=CANARY)
    assert (done.exit_code, done.stdout) == (
        0,
        f"policy                  frugal  ({file})\n"
        "window                  9  (argument)\n"
        "provider.api_key        (set, not shown)  (environment ANTHROPIC_API_KEY)\n"
        "micro.budget.where      everywhere  (policy frugal)\n"
        "compact.summary_tokens  0  (policy frugal)\n"
        "economy.enabled         False  (policy frugal)\n",
    )
    everything = json.loads(run(tmp_path, "--json", ANTHROPIC_API_KEY=CANARY).stdout)
    assert everything["values"].keys() == KEYS.keys()
    assert everything["values"]["provider.api_key"]["value"] == "(set, not shown)"


def test_the_command_says_in_one_sentence_what_is_wrong(tmp_path: Path):
    done = run(tmp_path, "--set", "window=0")
    assert (done.exit_code, done.stderr) == (
        1, "Error: argument: window = '0', allowed is a whole number, from 1 to 10,000,000.\n",
    )  # fmt: skip
    assert run(tmp_path, "--set", "window").exit_code == 2


def test_notes_of_the_environment_reach_the_terminal(tmp_path: Path):
    done = run(tmp_path, CLAUDE_AUTOCOMPACT_PCT_OVERRIDE="0")
    assert done.stderr.startswith("note: environment CLAUDE_AUTOCOMPACT_PCT_OVERRIDE = '0' is ignored")
    assert from_environment({"CLAUDE_AUTOCOMPACT_PCT_OVERRIDE": "0"}).problems == ()
