"""`everturn tune`: tables and settings from a person's own sessions (EC-9)."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from everturn.cli import main
from everturn.cli.tune import with_settings
from everturn.decide.economy.pauses import DEFAULT_PAUSES, parse_pauses
from everturn.decide.economy.reuse import DEFAULT_REUSE, parse_reuse
from everturn.measure.model_table import MODELS
from everturn.replay.policies import parse_policy
from everturn.replay.tuning import FittedTables, compared_policies, settings_lines, split_files
from everturn.session.config.load import resolve_options

ECONOMY = Path(__file__).parents[2] / "docs" / "economy.md"
OWN = FittedTables(DEFAULT_PAUSES, DEFAULT_REUSE, 10_000, 10_000)


def tune(tmp_path, *arguments, **more):
    home = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": "", "EVERTURN_CONFIG": ""}
    given = ["tune", *map(str, arguments), "--cache", str(tmp_path / "kept"), "--workers", "1"]
    return CliRunner(env=home).invoke(main, given, **more)


def make_sessions(folder, count):
    folder.mkdir()
    for seed in range(count):
        given = f"--tokens 12000 --seed {seed} --sidechains 0 --images 0 --idle-gaps 0".split()
        made = CliRunner().invoke(main, ["make-session", *given, "--out", str(folder / f"{seed}.jsonl")])
        assert made.exit_code == 0, made.output
    return folder


@pytest.mark.spec("EC-9")
def test_one_session_is_compared_and_it_says_that_this_is_little(tmp_path):
    done = tune(tmp_path, make_sessions(tmp_path / "sessions", 1), "--dry-run")
    assert done.exit_code == 0, done.output
    assert "One or two sessions say little about others." in done.stdout
    assert "economic+balanced" in done.stdout


@pytest.mark.spec("EC-9")
def test_it_says_which_model_is_the_nearest_to_one_without_a_known_price(tmp_path):
    folder = make_sessions(tmp_path / "sessions", 1)
    for file in folder.iterdir():
        file.write_text(re.sub(r'"model":\s*"claude-[^"]+"', '"model":"claude-opus-9-9"', file.read_text()))
    done = tune(tmp_path, folder, "--dry-run")
    assert done.exit_code == 0, done.output
    newest = next(model.id for model in MODELS if model.id.startswith("claude-opus-"))
    nearest = f"'claude-opus-9-9' is not in the table of models; measured as {newest}"
    assert " ".join(done.output.split()).count(nearest) == 1


@pytest.mark.spec("EC-7")
def test_the_default_caution_is_the_cheapest_with_at_most_one_refetch_more_than_claude_code():
    """By the published table, with summaries by a small model and holds."""
    shown = CliRunner().invoke(main, ["config", "--json"])
    assert shown.exit_code == 0, shown.output
    default = json.loads(shown.stdout)["values"]["economy.caution"]["value"]
    rows = re.findall(r"^\| ([\w-]+)(, small model, holds)? \| ([\d.]+) .*?\| ([\d.]+) \| [\d.]+ % \|$",
                      ECONOMY.read_text(), re.MULTILINE)  # fmt: skip
    found = {name: (float(dollars), float(refetches)) for name, _, dollars, refetches in rows}
    limit = found.pop("claude-code")[1] + 1
    allowed = {name: dollars for name, (dollars, refetches) in found.items() if refetches <= limit}
    assert set(found) == {"frugal", "balanced", "careful"}
    assert min(allowed, key=lambda name: allowed[name]) == default


def test_ctrl_c_ends_it_with_130_writes_nothing_and_shows_no_traceback(tmp_path):
    os.mkfifo(tmp_path / "never")
    (tmp_path / "sessions").mkdir()
    (tmp_path / "sessions" / "one.jsonl").write_text("{}")
    # Reading the session takes for ever: it waits for somebody to write.
    code = (
        "import everturn.replay.sessions as s, sys\n"
        "def read(*a, **k): print('begun', flush=True); return open(never).read()\n"
        "s.read_file, never = read, sys.argv.pop()\n"
        "from everturn.__main__ import main; sys.exit(main())"
    )
    home = {**os.environ, "HOME": str(tmp_path), "XDG_CONFIG_HOME": ""}
    command = [
        sys.executable,
        "-c",
        code,
        "tune",
        str(tmp_path / "sessions"),
        "--yes",
        str(tmp_path / "never"),
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=home)
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert not (tmp_path / ".config").exists()


@pytest.mark.spec("EC-9")
def test_three_sessions_are_compared_with_a_picture_and_nothing_is_written_in_a_dry_run(tmp_path):
    folder, page = make_sessions(tmp_path / "sessions", 3), tmp_path / "page.html"
    done = tune(tmp_path, folder, "--dry-run", "--html", page)
    assert done.exit_code == 0, done.output
    cautions = ("economic+frugal", "economic+balanced", "economic+careful")
    for words in ("claude-code", *cautions, "Fitted on 2 files"):
        assert words in done.stdout
    assert "too few" in done.stdout
    # As wide as the terminal; here nobody says how wide it is.
    assert max(map(len, done.stdout.splitlines())) <= 80
    shown = re.findall(r'class="number [a-z-]+"[^>]*>([0-9, –]+)<', page.read_text())
    # Nothing has to be compacted in sessions that small: every policy costs the same.
    assert shown == ["1–5"]
    assert not (tmp_path / ".config").exists()


def test_without_sessions_it_says_where_it_looked(tmp_path):
    done = tune(tmp_path)
    where = tmp_path / ".claude" / "projects"
    said = f"No sessions found in {where}. Name a folder with recorded sessions: everturn tune FOLDER"
    assert (done.exit_code, done.stdout, done.stderr) == (1, "", f"Error: {said}\n")


def test_a_folder_without_a_readable_session_names_the_file_and_why(tmp_path):
    file = tmp_path / "x.jsonl"
    file.write_bytes(b"\x00{broken")
    done = tune(tmp_path, str(file))
    said = f"No session to tune on. Looked in {file}.\n  {file}: unknown format"
    assert (done.exit_code, done.stderr.splitlines()[-2:]) == (1, f"Error: {said}".splitlines())


@pytest.mark.spec("EC-9")
def test_the_settings_are_what_a_session_reads_and_a_second_run_replaces_them(tmp_path):
    file = tmp_path / "config.toml"
    once = with_settings("[compact]\nfiles = 2\n", settings_lines("frugal", OWN, ""), str(file))
    file.write_text(with_settings(once, settings_lines("careful", OWN, ""), str(file)))
    options = resolve_options(config=str(file)).options
    assert (options.policy, options.economy.caution, options.compact.files) == ("economic", "careful", 2)
    assert options.economy.pause_table == DEFAULT_PAUSES == parse_pauses(DEFAULT_PAUSES.to_lines())
    assert options.economy.reuse_table == DEFAULT_REUSE == parse_reuse(DEFAULT_REUSE.to_lines())


@pytest.mark.spec("EC-9")
@pytest.mark.parametrize("summary_model", ["", "claude-haiku-4-5"])
def test_with_the_settings_a_replay_of_the_configuration_is_what_was_recommended(tmp_path, summary_model):
    file = tmp_path / "config.toml"
    file.write_text("\n".join(settings_lines("frugal", OWN, summary_model)))
    options = resolve_options(config=str(file)).options
    configured = parse_policy("configured", configured=options)
    compared = {each.name: each for each in compared_policies(OWN, summary_model)}
    assert configured.options.economy == compared["economic+frugal"].options.economy
    if summary_model:
        assert configured.options.compact == compared["economic+frugal"].options.compact


def test_a_file_that_sets_the_policy_itself_is_left_alone():
    with pytest.raises(click.ClickException, match="Nothing was written"):
        with_settings('policy = "none"\n', settings_lines("careful", OWN, ""), "config.toml")


@pytest.mark.parametrize("line", ["reads", "reads 7 1/2 1/2 1/2", "cooks 0 1/2 1/2 1/2", "reads 0 1/2 1/2"])
def test_a_row_that_is_none_is_refused_with_an_example(line):
    with pytest.raises(ValueError, match="for example 'reads 300"):
        parse_reuse([line])


def test_the_halves_depend_on_the_names_alone(tmp_path):
    files = [tmp_path / f"{n}.jsonl" for n in range(7)]
    fitted, checked = split_files(files)
    assert split_files(files[::-1]) == (fitted, checked)
    assert sorted((*fitted, *checked)) == files
