"""`everturn replay`: what recorded sessions would have cost under other policies.

Exit codes: 0 if at least one session was replayed; 1 if none could be, with the reasons on stderr; 2 for
wrong usage.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from everturn.cli.configured import configured
from everturn.cli.output import open_output, say_json, write_output

if TYPE_CHECKING:
    from everturn.decide.options import Options
    from everturn.replay.compare import ComparisonTable
    from everturn.replay.parallel import ReplayOutcome, ResultCache
    from everturn.replay.playing.offline_effects import SummaryWriter
    from everturn.replay.policies import ReplayPolicy

DEFAULT_POLICIES = (
    "none,recorded,claude-code,when-cold,clear-keep-3,masking,sliding-window,summarize-85,oracle"
)


@click.command(short_help="What recorded sessions would have cost under other policies.")
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option(
    "--policy",
    "policies",
    default=DEFAULT_POLICIES,
    show_default=True,
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
@click.option("--ttl", type=click.Choice(["5m", "1h"]), default="5m", help="Lifetime of cache entries.")
@click.option("--refresh", is_flag=True, help="Refresh the cache during pauses if that is cheaper.")
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
@click.option("--engine", type=click.Choice(["local", "here", "ray"]), default="local", show_default=True)
@click.option("--workers", type=click.IntRange(1), help="Number of processes; by default one per core.")
@click.option("--cache", type=click.Path(file_okay=False, path_type=Path), help="Folder for cached results.")
@click.option("--no-color", is_flag=True, help="Print without colours.")
@configured
def replay(
    paths: tuple[Path, ...],
    policies: str,
    model: str,
    summarizer: str,
    ttl: str,
    refresh: bool,
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
    """Replay the recorded sessions in PATHS (files or folders) under several policies.

    Shows what each policy would have cost, what broke the cache, how often the context was compacted, and how
    often content was needed again after it was removed. Needs no API key and no network, except for
    --summarizer.
    """
    import msgspec

    from everturn.dashboard.progress import progress
    from everturn.replay.parallel import ResultCache, default_folder, replay_all

    chosen = _parse_policies(policies, ttl, model, summarizer, refresh=refresh, options=options)
    keep = ResultCache(str(cache or default_folder(os.environ)))
    writer = _make_writer(keep, options) if any(each.summarizer for each in chosen) else None
    with progress("Replaying") as tell:
        done = replay_all(
            paths,
            chosen,
            keep,
            engine="processes" if engine == "local" else engine,  # pyright: ignore[reportArgumentType]
            workers=workers or os.cpu_count() or 1,
            tell=tell,
            writer=writer,
        )
    if not done.sessions:
        reasons = "\n".join(f"  {each.path}: {each.why}" for each in done.unreadable)
        raise click.ClickException(f"No session to replay.\n{reasons}".rstrip())
    compared = _compare(done, chosen, keep)
    if html is not None:
        write_output(html, _render_page(done, chosen, keep).encode())
    if requests is not None:
        _write_requests(requests, paths, chosen, writer)
    if into is not None:
        from everturn.dashboard.replay_table import insert_tables

        page, name = into
        from everturn.safe_files import edit_text

        edit_text(page, lambda text: insert_tables(text, name, compared))
    if as_json:
        told = {**msgspec.to_builtins(compared), "unreadable": msgspec.to_builtins(done.unreadable)}
        say_json(msgspec.json.format(msgspec.json.encode(told), indent=1))
        return
    from everturn.dashboard.replay_table import draw

    draw(compared, color=not no_color)


def _parse_policies(
    policies: str, ttl: str, model: str, summarizer: str, *, refresh: bool, options: "Options"
) -> list["ReplayPolicy"]:
    from everturn.replay.policies import apply_switches, parse_policy, use_summarizer

    named = [
        parse_policy(each, model=model, configured=options) for each in policies.split(",") if each.strip()
    ]
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
    if summarizer:
        switched = [use_summarizer(each, summarizer) for each in switched]
    return list({each.name: each for each in switched}.values())


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
    for each in done.sessions:
        runs = load_calls(each, policies, keep).runs
        comparison.add(runs)
        if len(done.sessions) == 1:
            notes |= dict.fromkeys(note for run in runs for note in run.notes)
    unread = [f"{each.path} was left out: {each.why}" for each in done.unreadable]
    return comparison.compared([*notes, *unread])


def _render_page(done: "ReplayOutcome", policies: Sequence["ReplayPolicy"], keep: "ResultCache") -> str:
    from everturn.replay.page import render_page
    from everturn.replay.parallel import load_comparisons

    unreadable = [(each.path, each.why) for each in done.unreadable]
    return render_page(load_comparisons(done.sessions, policies, keep), unreadable=unreadable)


def _write_requests(
    file: Path,
    paths: Sequence[Path],
    policies: Sequence["ReplayPolicy"],
    writer: "SummaryWriter | None",
) -> None:
    """Request bodies are not cached, so the sessions are simulated again for this file."""
    from everturn.replay.requests_file import make_request_writer
    from everturn.replay.sessions import ReplaySession, read_sessions
    from everturn.replay.simulate import index_uses, simulate

    with open_output(file) as out:
        for session in read_sessions(paths):
            if isinstance(session, ReplaySession):
                uses = index_uses(session)
                for policy in policies:
                    simulate(
                        session,
                        policy,
                        uses,
                        observer=make_request_writer(out, session.name, policy.name),
                        writer=writer if policy.summarizer else None,
                    )
