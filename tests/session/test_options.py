"""Options from every source at once: which of them wins, where each value came from, what is refused."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from everturn import AsyncSession, Session
from everturn.adapters.tracking import make_parts
from everturn.decide.notes.settings import NotesSettings
from everturn.decide.options import Options
from everturn.decide.policy import POLICIES, get_policy
from everturn.errors import InputError, UsageError
from everturn.session.config.keys import KEYS, RENAMED_KEYS, parse_text_value
from everturn.session.config.load import (
    layer_options,
    load_options,
    resolve_options,
    value_at,
    with_value,
)
from everturn.session.config.sources import TomlFile
from everturn.session.upstream import RawResponse

SWITCHED = tuple(key.removesuffix(".enabled") for key in KEYS if key.endswith(".enabled"))
ROW = {"based_on": "claude-opus-5", "window": 32_000}


@pytest.fixture
def write_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Write the user's own configuration file, where the loader looks for it."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "own"))

    def write(text: str) -> Path:
        file = tmp_path / "own" / "everturn" / "config.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    return write


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


def nobody(body: bytes, betas: object) -> RawResponse:
    raise AssertionError("nobody is asked here")


# ── layers ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("CF-1", "CF-3")
def test_each_layer_wins_over_all_before_it_and_every_value_knows_its_own(write_own, project, monkeypatch):
    """One key more is set by each layer; the last of them that sets a key is its origin."""
    keys = ("micro.budget.keep", "micro.time.keep", "micro.cached.keep", "micro.masking.keep")

    def written(value: int, first: int) -> str:
        return "\n".join(f"{key} = {value}" for key in keys[first:])

    own = write_own(f"policy = 'frugal'\n{written(11, 0)}")
    (project / "everturn.toml").write_text(written(12, 1))
    monkeypatch.setenv("EVERTURN_MICRO_CACHED_KEEP", "13")
    monkeypatch.setenv("EVERTURN_MICRO_MASKING_KEEP", "13")
    surface = {**dict.fromkeys(keys, 10), "micro.clear_at.keep": 10}
    loaded = resolve_options(None, {"micro.masking.keep": 14}, defaults=surface, project=project)
    wanted = ("micro.window.share", "micro.budget.where", "micro.clear_at.keep", *keys)
    assert {key: (value_at(loaded.options, key), loaded.origins[key]) for key in wanted} == {
        "micro.window.share": (0.5, "default"),
        "micro.budget.where": ("everywhere", "policy frugal"),
        "micro.clear_at.keep": (10, "default of this surface"),
        "micro.budget.keep": (11, str(own)),
        "micro.time.keep": (12, str(project / "everturn.toml")),
        "micro.cached.keep": (13, "environment EVERTURN_MICRO_CACHED_KEEP"),
        "micro.masking.keep": (14, "argument"),
    }


def test_every_key_has_an_origin_and_nothing_else_has():
    assert resolve_options(config=None).origins == dict.fromkeys(KEYS, "default")


@pytest.mark.spec("CF-3")
def test_a_policy_of_a_later_source_is_the_preset_and_values_of_earlier_ones_stay(write_own):
    write_own("policy = 'frugal'\nmicro.clear_at.keep = 8")
    options = resolve_options(None, {"policy": "clear-keep-3"}).options
    assert options == with_value(get_policy("clear-keep-3").options, "micro.clear_at.keep", 8)


def test_a_surface_s_own_default_wins_over_the_policy_and_nothing_else(monkeypatch):
    surface = {"micro.oversize.enabled": False}
    assert not resolve_options(None, {"policy": "frugal"}, defaults=surface).options.micro.oversize.enabled
    monkeypatch.setenv("EVERTURN_MICRO_OVERSIZE_ENABLED", "1")
    assert resolve_options(None, {}, defaults=surface).options.micro.oversize.enabled


def test_a_project_s_file_is_read_where_a_command_asks_for_it_and_never_otherwise(project, monkeypatch):
    (project / "everturn.toml").write_text("window = 5")
    monkeypatch.chdir(project)
    assert resolve_options().options.window is None
    assert resolve_options(project=project).options.window == 5


# ── options that a program made ──────────────────────────────────────────────────────────────────


@pytest.mark.spec("CF-2")
@pytest.mark.parametrize(
    ("variable", "key"),
    [
        ("DISABLE_COMPACT", "compact.enabled"),
        ("DISABLE_AUTO_COMPACT", "thresholds.auto_compaction"),
        ("DISABLE_MICROCOMPACT", "micro.enabled"),
    ],
)
def test_a_kill_switch_of_the_environment_works_on_options_that_say_nothing_about_it(
    monkeypatch, variable, key
):
    monkeypatch.setenv(variable, "1")
    loaded = resolve_options(Options(window=9_000))
    assert loaded.options == with_value(Options(window=9_000), key, False)
    assert loaded.origins[key] == f"environment {variable}"


@pytest.mark.spec("CF-1")
def test_what_options_say_wins_over_file_and_environment_and_a_keyword_wins_over_them(write_own, monkeypatch):
    write_own("window = 1\nmax_tokens = 1\nlimits.rounds = 1")
    monkeypatch.setenv("EVERTURN_WINDOW", "2")
    monkeypatch.setenv("EVERTURN_MAX_TOKENS", "2")
    said = Options(window=3, max_tokens=3)
    options = resolve_options(said, {"max_tokens": 4}).options
    assert (options.limits.rounds, options.window, options.max_tokens) == (1, 3, 4)


def test_a_keyword_wins_over_the_kill_switch_and_over_the_policy(monkeypatch):
    monkeypatch.setenv("DISABLE_COMPACT", "1")
    found = resolve_options(get_policy("none"), {"compact.enabled": True}).options
    assert (found.policy, found.may_compact) == ("none", True)
    assert not resolve_options(get_policy("claude-code")).options.may_compact


def test_a_policy_named_in_options_means_its_preset():
    for config in ("auto", None):
        assert resolve_options(Options(policy="none"), config=config).options == get_policy("none").options


@pytest.mark.spec("CF-3")
@pytest.mark.parametrize("name", sorted(POLICIES))
def test_options_come_back_as_they_were_given(name):
    preset = get_policy(name).options
    assert resolve_options(preset, config=None).options == preset
    changed = msgspec.structs.replace(preset, window=77, models={"mine": ROW})
    assert resolve_options(changed, config=None).options == changed


# ── which files are read ─────────────────────────────────────────────────────────────────────────


def test_without_configuration_neither_file_nor_environment_is_read(write_own, monkeypatch):
    write_own("this is not TOML")
    monkeypatch.setenv("DISABLE_COMPACT", "perhaps")
    monkeypatch.setenv("EVERTURN_NO_SUCH_KEY", "1")
    assert resolve_options(config=None).options == load_options(config=None) == Options()
    assert load_options(config=None, window=5) == Options(window=5)


def test_a_file_that_is_named_takes_the_place_of_the_user_s_own(write_own, tmp_path, monkeypatch):
    write_own("window = 1\nmax_tokens = 1")
    other = tmp_path / "other.toml"
    other.write_text("window = 2")
    monkeypatch.setenv("EVERTURN_LIMITS_ROUNDS", "3")
    loaded = resolve_options(config=other)
    assert loaded.options == with_value(Options(window=2), "limits.rounds", 3)
    assert loaded.origins["window"] == str(other)
    with pytest.raises(InputError, match=r"No file .*gone\.toml found"):
        resolve_options(config=tmp_path / "gone.toml")


# ── wrong names and values ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ({"windwo": 5}, "argument: no key is named 'windwo'. Did you mean window?"),
        ({"compact": {"strategy": ["fork"]}}, "'compact.strategy'. Did you mean compact.strategies?"),
        ({"zzz": 1}, "argument: no key is named 'zzz'. `everturn config` lists all keys."),
        (
            {"policy": "frugl"},
            f"argument: policy = 'frugl', allowed is one of {', '.join(sorted(POLICIES))}.",
        ),
        (
            {"notes": {"first": -1}},
            "argument: notes.first = -1, allowed is a whole number, from 0 to 10,000,000.",
        ),
        (
            {"compact": {"strategies": ["fork", "guess"]}},
            "argument: compact.strategies = ['fork', 'guess'], "
            "allowed is a list of notes, fork, direct, provider, extractive, extract.",
        ),
    ],
)
def test_a_wrong_keyword_is_the_caller_s_mistake_and_names_itself(override, says):
    with pytest.raises(UsageError) as raised:
        resolve_options(None, override, config=None)
    assert says in str(raised.value)


def test_where_a_file_is_wrong_too_it_is_no_mistake_of_the_caller_and_both_are_named(write_own):
    file = write_own("windwo = 1")
    with pytest.raises(InputError) as raised:
        resolve_options(None, {"windwo": 2})
    assert str(raised.value).splitlines() == [
        "The configuration has 2 problems:",
        f"- {file}: no key is named 'windwo'. Did you mean window?",
        "- argument: no key is named 'windwo'. Did you mean window?",
    ]


# ── renamed keys ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("old", sorted(RENAMED_KEYS))
def test_a_key_that_was_renamed_still_works_from_every_source_with_a_note(old):
    new = RENAMED_KEYS[old]
    kind = KEYS[new].type
    text = {bool: "false", int: "7", float: "0.5"}.get(kind, "a")
    value = parse_text_value(KEYS[new], text) if kind in (bool, int, float) else ("a",)
    if kind is str:
        value = text
    variable = "EVERTURN_" + old.upper().replace(".", "_")
    spelled = "['a']" if isinstance(value, tuple) else "'a'" if kind is str else text
    for origin, loaded in (
        ("c.toml", layer_options([TomlFile(f"{old} = {spelled}", "c.toml")])),
        (f"environment {variable}", layer_options(environment={variable: text})),
        ("argument", layer_options(arguments={old: value})),
    ):
        assert value_at(loaded.options, new) == value
        assert loaded.origins[new] == origin
        assert loaded.notes == (f"{origin}: {old} is now {new}",)


def test_no_key_is_both_renamed_and_in_use():
    assert RENAMED_KEYS.keys() & KEYS.keys() == set()
    assert set(RENAMED_KEYS.values()) <= KEYS.keys()


# ── models ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("CF-6")
def test_models_are_taken_from_the_user_s_file_and_not_from_a_project_s(write_own, project):
    own = write_own('[models."mine"]\nbased_on = "claude-opus-5"\nwindow = 32_000')
    (project / "everturn.toml").write_text('[models."mine"]\nbased_on = "claude-opus-5"\nwindow = 1')
    loaded = resolve_options(project=project)
    assert loaded.options == Options(models={"mine": ROW})
    assert loaded.origins["models"] == str(own)
    file = project / "everturn.toml"
    assert loaded.notes == (f"{file}: models is ignored; a project's file may not set it",)


@pytest.mark.spec("CF-6")
def test_models_can_be_an_argument_and_must_be_tables(write_own):
    assert resolve_options(None, {"models": {"mine": ROW}}, config=None).options.models == {"mine": ROW}
    write_own("[models]\nmine = 32_000")
    with pytest.raises(
        InputError, match=r'models holds one table for each model, such as \[models\."name"\]'
    ):
        resolve_options()


# ── sections ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("value", [True, False])
@pytest.mark.parametrize("section", SWITCHED)
def test_true_and_false_switch_a_section(section, value):
    loaded = resolve_options(None, {section: value}, config=None)
    assert loaded.options == with_value(Options(), f"{section}.enabled", value)
    assert loaded.origins[f"{section}.enabled"] == "argument"


def test_a_section_inside_another_is_switched_in_its_mapping():
    options = resolve_options(None, {"micro": {"time": False, "budget": {"keep": 1}}}, config=None).options
    assert options == with_value(with_value(Options(), "micro.time.enabled", False), "micro.budget.keep", 1)


@pytest.mark.parametrize("section", ["thresholds", "limits", "store", "cache"])
def test_a_section_without_a_switch_is_not_switched(section):
    with pytest.raises(UsageError, match=f"no key is named '{section}'"):
        resolve_options(None, {section: True}, config=None)


def test_settings_are_a_section_as_a_whole_and_none_says_nothing(write_own):
    write_own("window = 5\nnotes.first = 1\nnotes.growth = 1")
    settings = NotesSettings(enabled=True, first=2)
    loaded = resolve_options(None, {"notes": settings, "window": None})
    assert loaded.options == Options(window=5, notes=settings)


# ── through a session ────────────────────────────────────────────────────────────────────────────


def test_keywords_of_the_first_version_are_the_keys_that_they_are_now_and_said_so(tmp_path):
    old = {"ways": ("extract",), "recalls": True, "fsync": "never"}
    with Session.open(tmp_path / "s.jsonl", send=nobody, **old) as session:
        found = session.options
        assert session.remarks == [
            "argument: 'extract' in compact.strategies is now 'extractive'",
            "argument: ways is now compact.strategies",
            "argument: recalls is now recall.enabled",
            "argument: fsync is now store.fsync",
        ]
    assert (found.compact.strategies, found.recall.enabled, found.store.fsync) == (
        ("extract",),
        True,
        "never",
    )


def test_a_wrong_keyword_opens_nothing(tmp_path):
    with pytest.raises(UsageError, match=r"no key is named 'modle'\. Did you mean model\?"):
        Session.open(tmp_path / "s.jsonl", send=nobody, modle="claude-opus-5")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("given", [{"zzz": None}, {"compact": {"zzz": None}}, {"compact.zzz": None}])
def test_a_keyword_that_is_no_key_is_refused_also_where_it_is_none(tmp_path, given):
    with pytest.raises(UsageError, match=r"argument: no key is named '(compact\.)?zzz'"):
        Session.open(tmp_path / "s.jsonl", send=nobody, **given)
    assert list(tmp_path.iterdir()) == []


def test_a_key_that_is_none_is_not_set(tmp_path):
    given: dict[str, Any] = {
        "window": None,
        "compact": None,
        "notes": {"enabled": None},
        "recalls": None,
        "models": None,
    }
    with Session.open(tmp_path / "s.jsonl", send=nobody, config=None, **given) as session:
        assert session.options == Options()


@pytest.mark.parametrize(("name", "near"), [("clinet", "client"), ("hook", "hooks"), ("sytem", "system")])
def test_a_keyword_that_is_nearly_an_argument_is_told_its_name(tmp_path, name, near):
    with pytest.raises(
        UsageError, match=rf"{name!r} is neither an argument nor a key\. Did you mean {near}\?"
    ):
        Session.open(tmp_path / "s.jsonl", send=nobody, **{name: None})
    assert list(tmp_path.iterdir()) == []


async def test_an_async_session_takes_options_as_a_session_does(tmp_path):
    async with await AsyncSession.open(
        tmp_path / "s.jsonl", Options(policy="frugal"), send=nobody
    ) as session:
        assert session.session.options.policy == "frugal"


def test_an_async_session_has_every_method_of_a_session_with_its_parameters():
    def methods(session: type) -> dict[str, list[str]]:
        found = {name: each for name, each in vars(session).items() if inspect.isfunction(each)}
        return {
            name: [word for word in inspect.signature(each).parameters if word not in ("where", "options")]
            for name, each in found.items()
            if not name.startswith("_")
        }

    ours = methods(AsyncSession)
    # Their options are passed on as they are.
    ours["send"].append("rounds"), ours["stream"].append("rounds")
    for name in ("compact", "dry_run"):
        ours[name] += ["from_", "up_to"]
    assert ours == methods(Session)


def test_a_session_reads_the_user_s_file_and_remarks_what_it_noticed(write_own, tmp_path):
    file = write_own("[switches]\ncompaction = false")
    with Session.open(tmp_path / "s.jsonl", send=nobody) as session:
        assert not session.options.may_compact
        assert session.remarks == [f"{file}: switches.compaction is now compact.enabled"]
    with Session.open(tmp_path / "s.jsonl", send=nobody, config=None) as session:
        assert session.options.may_compact


# ── hooks: an argument and a section ─────────────────────────────────────────────────────────────

HOOKS_FILE = '{"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": "echo red"}]}]}}'


@pytest.mark.spec("CF-2")
@pytest.mark.parametrize(("given", "is_run"), [(False, False), (True, True), ({"enabled": False}, False)])
def test_hooks_as_a_section_of_the_configuration_switch_its_files_on_and_off(
    write_own, tmp_path, given, is_run
):
    settings = tmp_path / "settings.json"
    settings.write_text(HOOKS_FILE)
    write_own(f'[hooks]\nfiles = ["{settings}"]\n')
    with Session.open(tmp_path / "s.jsonl", send=nobody, hooks=given) as session:
        assert session.options.hooks.files == (str(settings),)
        assert bool(session.conversation.log.records) is is_run
    parts = make_parts(None, folder=None, hooks=given)
    assert bool(parts.hooks.hooks) is is_run


def test_hooks_as_a_section_name_their_files_and_other_values_are_refused(tmp_path):
    settings = tmp_path / "settings.json"
    settings.write_text(HOOKS_FILE)
    with Session.open(
        tmp_path / "s.jsonl", send=nobody, config=None, hooks={"files": [str(settings)]}
    ) as session:
        assert len(session.conversation.log.records) == 1
    with pytest.raises(UsageError, match="`hooks` takes Hooks"):
        Session.open(tmp_path / "t.jsonl", send=nobody, config=None, hooks=[print])  # pyright: ignore
    with pytest.raises(UsageError, match=r"'hooks\.fils'. Did you mean hooks\.files"):
        Session.open(tmp_path / "t.jsonl", send=nobody, config=None, hooks={"fils": []})
