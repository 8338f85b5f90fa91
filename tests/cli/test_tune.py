"""`everturn tune`: tables and settings from a person's own sessions (EC-9)."""

import click
import pytest
from click.testing import CliRunner

from everturn.cli import main
from everturn.cli.tune import with_settings
from everturn.decide.economy.pauses import DEFAULT_PAUSES, parse_pauses
from everturn.decide.economy.reuse import DEFAULT_REUSE, parse_reuse
from everturn.replay.tuning import FittedTables, settings_lines, split_files
from everturn.session.config.load import resolve_options

OWN = FittedTables(DEFAULT_PAUSES, DEFAULT_REUSE, 10_000, 10_000)


def tune(tmp_path, *arguments, **more):
    home = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": "", "EVERTURN_CONFIG": ""}
    given = ["tune", *map(str, arguments), "--cache", str(tmp_path / "kept"), "--workers", "1"]
    return CliRunner(env=home).invoke(main, given, **more)


@pytest.mark.spec("EC-9")
def test_three_sessions_are_compared_with_a_picture_and_nothing_is_written_in_a_dry_run(tmp_path):
    folder, page = tmp_path / "sessions", tmp_path / "page.html"
    folder.mkdir()
    for seed in range(3):
        given = f"--tokens 12000 --seed {seed} --sidechains 0 --images 0 --idle-gaps 0".split()
        made = CliRunner().invoke(main, ["make-session", *given, "--out", str(folder / f"{seed}.jsonl")])
        assert made.exit_code == 0, made.output
    done = tune(tmp_path, folder, "--dry-run", "--html", page)
    assert done.exit_code == 0, done.output
    cautions = ("economic+frugal", "economic+balanced", "economic+careful")
    for words in ("claude-code", *cautions, "Fitted on 2 files"):
        assert words in done.stdout
    assert "too few" in done.stdout
    assert page.read_text().count("<circle") == 5
    assert not (tmp_path / ".config").exists()


def test_without_sessions_it_says_where_it_looked(tmp_path):
    done = tune(tmp_path)
    where = tmp_path / ".claude" / "projects"
    assert (done.exit_code, done.stdout) == (
        0,
        f"No sessions found in {where}. Name a folder with recorded sessions.\n",
    )


@pytest.mark.spec("EC-9")
def test_the_settings_are_what_a_session_reads_and_a_second_run_replaces_them(tmp_path):
    file = tmp_path / "config.toml"
    once = with_settings("[compact]\nfiles = 2\n", settings_lines("frugal", OWN, ""), str(file))
    file.write_text(with_settings(once, settings_lines("careful", OWN, ""), str(file)))
    options = resolve_options(config=str(file)).options
    assert (options.policy, options.economy.caution, options.compact.files) == ("economic", "careful", 2)
    assert options.economy.pause_table == DEFAULT_PAUSES == parse_pauses(DEFAULT_PAUSES.to_lines())
    assert options.economy.reuse_table == DEFAULT_REUSE == parse_reuse(DEFAULT_REUSE.to_lines())


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
