"""`everturn tune`: fit the economic policy to your own sessions.

Exit codes: 0 if sessions were compared; 1 if there are none, or the settings could not be written; 2 for
wrong usage.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING

import click

from everturn.catalog.places import claude_projects
from everturn.cli.output import say, write_output
from everturn.cli.session_names import nothing_to
from everturn.safe_files import make_folder, read_file

if TYPE_CHECKING:
    from everturn.replay.compare import ComparisonTable
    from everturn.replay.policies import ReplayPolicy
    from everturn.replay.tuning import FittedTables

BEGIN, END = "# Written by everturn tune: begin", "# Written by everturn tune: end"


@click.command(short_help="Fit the economic policy to your own sessions.")
@click.argument("folder", required=False, type=click.Path(exists=True, path_type=Path))
@click.option(
    "--summary-model",
    metavar="MODEL",
    default="",
    help="Bill and recommend summaries by this model. By default the conversation's own writes them.",
)
@click.option(
    "--html",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write an HTML page with a chart to this file.",
)
@click.option("--dry-run", is_flag=True, help="Print the recommended settings and write nothing.")
@click.option("--yes", is_flag=True, help="Write the recommended settings without asking.")
@click.option("--workers", type=click.IntRange(1), help="Number of processes; by default one per core.")
@click.option("--cache", type=click.Path(file_okay=False, path_type=Path), help="Folder for cached results.")
def tune(
    folder: Path | None,
    summary_model: str,
    html: Path | None,
    dry_run: bool,
    yes: bool,
    workers: int | None,
    cache: Path | None,
) -> None:
    """Fit the economic policy to the sessions in FOLDER (default: ~/.claude/projects).

    Half of the sessions are used to count how long your pauses are and what is needed again; the other half
    to compare policies with these tables. Nothing is sent anywhere.
    """
    from everturn.dashboard.console import open_console
    from everturn.dashboard.progress import progress
    from everturn.dashboard.replay_table import draw
    from everturn.replay.sessions import files_below
    from everturn.replay.tuning import compared_policies, fit_tables, recommend, settings_lines, split_files

    folder = folder or claude_projects(os.environ, Path.home())
    files = [each for each in files_below([folder]) if "agent-" not in each.name] if folder.exists() else []
    if not files:
        raise click.ClickException(
            f"No sessions found in {folder}. Name a folder with recorded sessions: everturn tune FOLDER"
        )
    fitted_on, checked_on = split_files(files)
    with progress("Fitting") as tell:
        tables = fit_tables(fitted_on, tell)
    compared = _compare(checked_on, compared_policies(tables, summary_model), workers, cache)
    draw(compared)
    said = _describe(compared, tables, len(fitted_on), len(checked_on))
    say("\n".join(wrap(said, open_console(color=False).width, break_on_hyphens=False)))
    if html is not None:
        from everturn.replay.page.tuning_figure import render_tuning

        write_output(html, render_tuning(compared, said).encode())
    found = recommend(compared)
    if found.caution is None:
        return
    lines = settings_lines(found.caution, tables, summary_model)
    say("\n".join(("", "Recommended settings:", *lines)))
    if not dry_run:
        _offer(lines, yes=yes)


def _compare(
    files: Sequence[Path], policies: Sequence["ReplayPolicy"], workers: int | None, cache: Path | None
) -> "ComparisonTable":
    """The policies on these files. Raises ClickException if no session could be replayed."""
    from everturn.dashboard.progress import progress
    from everturn.replay.compare import Comparison
    from everturn.replay.parallel import ResultCache, default_folder, replay_all
    from everturn.replay.parallel.replays import load_calls

    keep = ResultCache(str(cache or default_folder(os.environ)))
    with progress("Checking") as tell:
        done = replay_all(files, policies, keep, workers=workers or os.cpu_count() or 1, tell=tell)
    if not done.sessions:
        raise nothing_to("tune on", files, done.unreadable)
    comparison = Comparison()
    guessed: dict[str, None] = {}
    for each in done.sessions:
        runs = load_calls(each, policies, keep).runs
        comparison.add(runs)
        guessed |= dict.fromkeys(guess for run in runs for guess in run.guessed)
    return comparison.compared(
        [*guessed, *(f"{each.path} was left out: {each.why}" for each in done.unreadable)]
    )


def _describe(compared: "ComparisonTable", tables: "FittedTables", fitted: int, checked: int) -> str:
    """What was fitted, what is recommended, and how far that can be trusted."""
    from everturn.replay.compare import describe_saving
    from everturn.replay.tuning import recommend, recommended_row

    pauses = "yours" if tables.has_own_pauses else "those of recorded sessions: too few of yours"
    reuse = "yours" if tables.has_own_reuse else "those of recorded sessions: too few of yours"
    parts = [
        f"Fitted on {fitted} files, checked on {checked} others."
        if fitted + checked > 2
        else "One or two sessions say little about others.",
        f"Pauses ({tables.silences:,} long ones): {pauses}. Reuse ({tables.exchanges:,} counts): {reuse}.",
    ]
    found = recommend(compared)
    if found.caution is None:
        return " ".join((*parts, f"Nothing is recommended: {found.why}."))
    saved = recommended_row(compared, found.caution).against_recorded
    if saved is None or saved.interval is None:
        trust = "too few sessions to say how far that holds for others"
    else:
        trust = "95% interval over sessions in parentheses"
    told = describe_saving(saved) if saved is not None else "an unknown share"
    parts.append(
        f"Recommended: economic with caution {found.caution}, {found.why}. It would have saved {told} "
        f"against what was recorded ({trust}). Holds are part of that: with `economy.holds` everturn keeps "
        "the cache alive through pauses, with paid calls of its own."
    )
    return " ".join(parts)


def _offer(lines: Sequence[str], *, yes: bool) -> None:
    from everturn.session.config.load import user_config_path

    path = user_config_path(os.environ, home=Path.home())
    if not yes and not click.confirm(f"Write these settings to {path}?", default=False):
        say("Nothing was written.")
        return
    text = read_file(path).decode() if path.exists() else ""
    make_folder(path.parent)
    write_output(path, with_settings(text, lines, str(path)).encode())
    say(f"Written to {path}.")


def with_settings(text: str, lines: Sequence[str], path: str) -> str:
    """A configuration file with these settings in front, in place of those of an earlier run."""
    import tomllib

    before, found, rest = text.partition(BEGIN)
    if found:
        _, _, after = rest.partition(END)
        text = before + after.lstrip("\n")
    new = "\n".join((BEGIN, *lines, END, "")) + text
    try:
        tomllib.loads(new)
    except tomllib.TOMLDecodeError as problem:
        raise click.ClickException(
            f"{path} sets one of these keys already ({problem}). Nothing was written: remove it there, or "
            "copy the lines above yourself."
        ) from None
    return new
