"""`everturn demo`: see everturn work against a twin, without a key or network."""

import sys
from datetime import timedelta
from decimal import Decimal
from itertools import islice

import click

from everturn.cli.output import say
from everturn.errors import UpstreamError


@click.group()
def demo() -> None:
    """See everturn work on a synthetic session, against the twin."""


@demo.command()
@click.option(
    "--turns", type=click.IntRange(4, 400), default=60, show_default=True, help="Number of model calls."
)
@click.option(
    "--idle", type=click.IntRange(0), default=75, show_default=True, help="Length of the pause in minutes."
)
@click.option("--seed", type=int, default=7, show_default=True, help="Seed of the synthetic session.")
@click.option(
    "--model", "model_id", default="claude-opus-5", show_default=True, help="The model of the session."
)
@click.option("--color/--no-color", default=True, help="Use colours if the terminal supports them.")
def cache(turns: int, idle: int, seed: int, model_id: str, color: bool) -> None:
    """A warm cache: an agent session with a long pause in the middle.

    Shows for each call what was read from the cache, what was written to it, what was cleared and why. Then
    compares the bill with that of the same session with caching only, and without caching.
    """
    from everturn.dashboard.call_chart import NamedCost, draw_bills, draw_steps
    from everturn.decide.options import DEFAULT_POLICY
    from everturn.decide.policy import get_policy
    from everturn.measure.capabilities import ANTHROPIC, PLAIN
    from everturn.measure.model_table import find_model
    from everturn.replay.demo_session import make_demo_session
    from everturn.replay.twin_replay import TwinReplaySettings, replay_against_twin

    model = find_model(model_id)
    if model is None:
        raise click.BadParameter(f"unknown model {model_id!r}", param_hint="--model")
    records, preamble = make_demo_session(seed=seed, turns=turns)
    pause = {turns // 2 + 1: timedelta(minutes=idle)}
    say(f"An agent with {turns} calls on {model.display_name}.")
    say(f"{idle} minutes idle after call {turns // 2}.\n")
    bills: list[NamedCost] = []
    for name, kept, able in (
        ("everturn", DEFAULT_POLICY, ANTHROPIC),
        ("caching only", "none", ANTHROPIC),
        ("no caching", "none", PLAIN),
    ):
        settings = TwinReplaySettings(
            model=model, options=get_policy(kept).options, capabilities=able, preamble=preamble
        )
        try:
            steps = list(islice(replay_against_twin(records, settings, pause), turns))
        except UpstreamError as problem:
            raise click.ClickException(
                f"{turns} calls do not fit into the window of {model.display_name} ({problem.message}), and "
                "this demo compares caching only. Use fewer --turns, or see `everturn demo compact`."
            ) from problem
        bills.append(NamedCost(name, sum((step.dollars for step in steps), Decimal())))
        if name == "everturn":
            draw_steps(steps, sys.stdout, color=color)
            right = sum(step.as_predicted for step in steps)
            say(f"\n{right} of {len(steps)} calls read and wrote exactly what was predicted.\n")
    draw_bills(bills, sys.stdout, color=color)


@demo.command(short_help="Unlimited conversation length: the context is compacted.")
@click.option(
    "--compactions",
    type=click.IntRange(1, 20),
    default=3,
    show_default=True,
    help="Stop after this many compactions.",
)
@click.option("--seed", type=int, default=7, show_default=True, help="Seed of the synthetic session.")
@click.option(
    "--model", "model_id", default="claude-sonnet-4-5", show_default=True, help="The model of the session."
)
@click.option("--color/--no-color", default=True, help="Use colours if the terminal supports them.")
def compact(compactions: int, seed: int, model_id: str, color: bool) -> None:
    """Unlimited conversation length: the context fills the window, is compacted, and continues.

    Shows a bar for every ten calls, and for each compaction what it kept and dropped. Then the bill.
    """
    from everturn.dashboard.long_session_chart import draw
    from everturn.measure.model_table import find_model
    from everturn.replay.long_session import run_long_session

    model = find_model(model_id)
    if model is None:
        raise click.BadParameter(f"unknown model {model_id!r}", param_hint="--model")
    times = "once" if compactions == 1 else f"{compactions} times"
    say(f"An agent on {model.display_name}, compacted {times}.\n")
    draw(
        run_long_session(model=model, compactions=compactions, seed=seed),
        model.window,
        sys.stdout,
        color=color,
    )
