"""`everturn replay`: what recorded sessions would have cost under other policies.

Exit codes: 0 if at least one session was replayed; 1 if none could be, with the reasons on stderr; 2 for
wrong usage.
"""

import os
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from everturn.cli.configured import configured
from everturn.cli.output import open_output, say, say_json, write_output
from everturn.cli.period import get_zone, period_options, to_period
from everturn.cli.session_names import (
    choose_paths,
    choose_session,
    nothing_to,
    remember_paths,
    sessions_argument,
)

if TYPE_CHECKING:
    from everturn.decide.options import Options
    from everturn.replay.compare import ComparisonTable
    from everturn.replay.parallel import ReplayOutcome, ResultCache
    from everturn.replay.playing.offline_effects import SummaryWriter
    from everturn.replay.policies import ReplayPolicy
    from everturn.replay.sessions import Period

DEFAULT_POLICIES = (
    "none,recorded,claude-code,economic,"
    "when-cold,clear-keep-3,masking,sliding-window,summarize-85,clears-only"
)


def complete_policies(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The last policy of the list that is being written."""
    from everturn.replay.policies import CONFIGURED, REPLAY_POLICIES

    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in (*REPLAY_POLICIES, CONFIGURED) if name.startswith(last)]


@click.command(short_help="What recorded sessions would have cost under other policies.")
@sessions_argument
@click.option(
    "--policy",
    "policies",
    default=DEFAULT_POLICIES,
    show_default=True,
    shell_complete=complete_policies,
    help="Comma-separated policies, each with optional switches, for example claude-code+1h+refresh. "
    "`configured` is your own configuration, --set included.",
)
@click.option("--model", default="", help="Use this model for all replies instead of the recorded one.")
@click.option(
    "--summarizer",
    metavar="MODEL",
    default="",
    help="Let this model write the summaries, through the configured provider. Sends it recorded content and "
    "costs money. By default summaries are written without a model.",
)
@click.option(
    "--summary-model",
    metavar="MODEL",
    default="",
    help="Bill summaries as if this model had written them, without calling it.",
)
@period_options
@click.option("--ttl", type=click.Choice(["5m", "1h"]), default="5m", help="Lifetime of cache entries.")
@click.option("--refresh", is_flag=True, help="Refresh the cache during pauses if that is cheaper.")
@click.option(
    "--caution",
    type=click.Choice(["frugal", "balanced", "careful"]),
    help="Caution of `economic` where its name has none, like economic+frugal.",
)
@click.option("--json", "as_json", is_flag=True, help="Print everything as one JSON object.")
@click.option(
    "--html", type=click.Path(dir_okay=False, path_type=Path), help="Write an HTML page to this file."
)
@click.option(
    "--requests",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write every request with its usage and cost to this file, one JSON object per line.",
)
@click.option(
    "--into",
    type=(click.Path(exists=True, dir_okay=False, path_type=Path), str),
    metavar="PAGE NAME",
    help="Insert the tables into a Markdown page, between the markers with this name.",
)
@click.option(
    "--engine",
    type=click.Choice(["local", "here", "ray"]),
    default="local",
    show_default=True,
    help="Where to compute: in several processes, in this one only, or on Ray.",
)
@click.option("--workers", type=click.IntRange(1), help="Number of processes; by default one per core.")
@click.option("--cache", type=click.Path(file_okay=False, path_type=Path), help="Folder for cached results.")
@click.option("--no-color", is_flag=True, help="Print without colours.")
@configured
def replay(
    sessions: tuple[str, ...],
    policies: str,
    model: str,
    summarizer: str,
    summary_model: str,
    since: datetime | None,
    until: datetime | None,
    ttl: str,
    refresh: bool,
    caution: str | None,
    as_json: bool,
    html: Path | None,
    requests: Path | None,
    into: tuple[Path, str] | None,
    engine: str,
    workers: int | None,
    cache: Path | None,
    no_color: bool,
    options: "Options",
) -> None:
    """Replay recorded SESSIONS under several policies; without SESSIONS, the newest one of this folder.

    SESSIONS are files, folders, ids as they are shown, or parts of titles.

    Shows what each policy would have cost, what broke the cache, how often the context was compacted, and how
    often content was needed again after it was removed. Needs no API key and no network, except for
    --summarizer.
    """
    from everturn.replay.parallel import ResultCache, default_folder
    from everturn.replay.sessions import Period

    for target in (html, requests):
        _check_target(target)
    chosen = _parse_policies(policies, ttl, model, refresh=refresh, caution=caution, options=options)
    chosen = _with_summaries(chosen, summarizer, summary_model)
    period = Period(*to_period(since, until))
    paths = choose_paths(sessions) or [Path(choose_session(None))]
    keep = ResultCache(str(cache or default_folder(os.environ)))
    writer = _make_writer(keep, options) if any(each.summarizer for each in chosen) else None
    done = _replay_all(paths, chosen, keep, engine, workers, writer, period)
    compared = _compare(done, chosen, keep)
    if html is not None:
        write_output(html, _render_page(done, compared, chosen, keep).encode(errors="replace"))
    if requests is not None:
        _write_requests(requests, paths, chosen, writer, done)
    if into is not None:
        _insert_tables(*into, compared)
    if as_json:
        _say_json(compared, done)
        return
    _draw(compared, done, color=not no_color)


def _replay_all(
    paths: Sequence[Path],
    policies: Sequence["ReplayPolicy"],
    keep: "ResultCache",
    engine: str,
    workers: int | None,
    writer: "SummaryWriter | None",
    period: "Period",
) -> "ReplayOutcome":
    """Every session of the period under every policy. No session at all is an error."""
    from everturn.dashboard.progress import progress
    from everturn.replay.parallel import replay_all

    with progress("Replaying") as tell:
        done = replay_all(
            paths,
            policies,
            keep,
            engine="processes" if engine == "local" else engine,  # pyright: ignore[reportArgumentType]
            workers=workers or os.cpu_count() or 1,
            tell=tell,
            writer=writer,
            period=period,
        )
    if not done.sessions:
        has_limits = period.since is not None or period.until is not None
        outside = " None began in the period of --since and --until." if has_limits else ""
        raise nothing_to("replay", paths, done.unreadable, outside)
    return done


def _draw(compared: "ComparisonTable", done: "ReplayOutcome", *, color: bool) -> None:
    from everturn.catalog.names import short_id
    from everturn.dashboard.replay_table import draw

    remember_paths(each.path for each in done.sessions)
    rows = [(short_id(each.path), each.began, each.title or each.name) for each in done.sessions]
    draw(compared, sessions=rows, color=color, zone=get_zone())


def _say_json(compared: "ComparisonTable", done: "ReplayOutcome") -> None:
    import msgspec

    from everturn.session.valid_text import make_encodable

    told = {**msgspec.to_builtins(compared), "unreadable": msgspec.to_builtins(done.unreadable)}
    say_json(msgspec.json.format(msgspec.json.encode(make_encodable(told)), indent=1))


def _parse_policies(
    policies: str, ttl: str, model: str, *, refresh: bool, caution: str | None, options: "Options"
) -> list["ReplayPolicy"]:
    from everturn.replay.policies import FORMER_NAMES, add_caution, apply_switches, parse_policy

    names = [each for each in policies.split(",") if each.strip()]
    for former in {each.strip().partition("+")[0] for each in names} & FORMER_NAMES.keys():
        say(f"note: the policy {former} is now {FORMER_NAMES[former]}", err=True)
    if caution is not None:
        cautious = [add_caution(each, caution) for each in names]
        if cautious == names:
            raise click.BadParameter("no policy is `economic` without a caution", param_hint="--caution")
        names = cautious
    named = [parse_policy(each, model=model, configured=options) for each in names]
    if not named:
        raise click.BadParameter("name at least one policy", param_hint="--policy")
    switched = [
        apply_switches(
            each,
            ttl="1h" if "1h" in (ttl, each.ttl) else "5m",
            refresh=refresh or each.refresh,
            model=model,
        )
        for each in named
    ]
    return list({each.name: each for each in switched}.values())


def _with_summaries(
    policies: Sequence["ReplayPolicy"], summarizer: str, summary_model: str
) -> list["ReplayPolicy"]:
    from everturn.replay.policies import bill_summaries_as, use_summarizer

    if summarizer and summary_model:
        raise click.UsageError(
            "Use --summarizer (a model writes) or --summary-model (only the bill), not both."
        )
    if summarizer:
        return [use_summarizer(each, summarizer) for each in policies]
    return [bill_summaries_as(each, summary_model) if summary_model else each for each in policies]


def _check_target(file: Path | None) -> None:
    """Fails before the work if a file cannot be written at its end."""
    if file is not None and not file.parent.is_dir():
        raise click.UsageError(f"The folder {file.parent} does not exist. Create it, or name another file.")


def _make_writer(keep: "ResultCache", options: "Options") -> "SummaryWriter":
    from everturn.replay.summarizer import connect_summarizer, make_summary_writer

    client = connect_summarizer(options.provider)
    click.get_current_context().call_on_close(client.close)
    return make_summary_writer(client.send, keep)


def _compare(
    done: "ReplayOutcome", policies: Sequence["ReplayPolicy"], keep: "ResultCache"
) -> "ComparisonTable":
    """Compares session by session, so that the calls of only one session are in memory."""
    from everturn.replay.compare import Comparison
    from everturn.replay.parallel.replays import load_calls

    comparison = Comparison()
    notes: dict[str, None] = {}
    guesses: Counter[str] = Counter()
    for each in done.sessions:
        runs = load_calls(each, policies, keep).runs
        comparison.add(runs)
        guesses.update({guess for run in runs for guess in run.guessed})
        if len(done.sessions) == 1:
            notes |= dict.fromkeys(note for run in runs for note in run.notes if note not in guesses)
    notes |= dict.fromkeys(_summary_notes(policies))
    unread = [f"{each.path} was left out: {each.why}" for each in done.unreadable]
    guessed = [f"{guess} ({count} of {len(done.sessions)} sessions)" for guess, count in guesses.items()]
    return comparison.compared([*notes, *guessed, *_snapshot_notes(done), *unread])


def _insert_tables(page: Path, name: str, compared: "ComparisonTable") -> None:
    from everturn.dashboard.replay_table import insert_tables
    from everturn.safe_files import edit_text

    edit_text(page, lambda text: insert_tables(text, name, compared))


def _summary_notes(policies: Sequence["ReplayPolicy"]) -> list[str]:
    """What bills name as the model of the summaries, and what is assumed about its price."""
    from everturn.measure.model_table import model_or_default
    from everturn.replay.policies import RECORDED

    models = dict.fromkeys(each.options.compact.summary_model for each in policies)
    said = [
        f"Summaries are billed as written by {model}, except those of {RECORDED}" for model in models if model
    ]
    return said + [guess for model in models if model and (guess := model_or_default(model).guessed)]


def _snapshot_notes(done: "ReplayOutcome") -> list[str]:
    if not done.snapshots:
        return []
    names = ", ".join(Path(each).name for each in done.snapshots)
    return [f"Left out, because a longer recording of the same session is there: {names}"]


def _render_page(
    done: "ReplayOutcome",
    compared: "ComparisonTable",
    policies: Sequence["ReplayPolicy"],
    keep: "ResultCache",
) -> str:
    from everturn.replay.page.document import render_page
    from everturn.replay.parallel import load_comparisons

    unreadable = [(each.path, each.why) for each in done.unreadable]
    return render_page(load_comparisons(done.sessions, policies, keep), compared, unreadable=unreadable)


def _write_requests(
    file: Path,
    paths: Sequence[Path],
    policies: Sequence["ReplayPolicy"],
    writer: "SummaryWriter | None",
    done: "ReplayOutcome",
) -> None:
    """Request bodies are not cached, so the sessions are simulated again for this file, each under the
    policies that it could be replayed under.
    """
    from everturn.replay.requests_file import make_request_writer
    from everturn.replay.sessions import ReplaySession, read_sessions
    from everturn.replay.simulate import index_uses, simulate

    made = {each.path: {run.policy for run in each.runs} for each in done.sessions}
    with open_output(file) as out:
        for session in read_sessions(paths):
            if isinstance(session, ReplaySession) and session.path in made:
                uses = index_uses(session)
                for policy in (each for each in policies if each.name in made[session.path]):
                    simulate(
                        session,
                        policy,
                        uses,
                        observer=make_request_writer(out, session.name, policy.name),
                        writer=writer if policy.summarizer else None,
                    )
