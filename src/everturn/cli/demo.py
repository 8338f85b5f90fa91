"""`everturn demo`: watch it work, against a twin, with no key and no network."""

import sys
from datetime import timedelta
from decimal import Decimal
from itertools import islice

import click


@click.group()
def demo() -> None:
    """Watch everturn work on a made-up session, against the twin."""


@demo.command()
@click.option(
    "--turns", type=click.IntRange(4, 400), default=60, show_default=True, help="Calls of the model."
)
@click.option("--idle", type=click.IntRange(0), default=75, show_default=True, help="Minutes of the pause.")
@click.option("--seed", type=int, default=7, show_default=True, help="Another seed, another session.")
@click.option("--model", "model_id", default="claude-opus-5", show_default=True)
@click.option("--color/--no-color", default=True, help="Colours, where the terminal has them.")
def cache(turns: int, idle: int, seed: int, model_id: str, color: bool) -> None:
    """A warm cache: an agent at work, with a long pause in the middle.

    Turn by turn: what was read from the cache, what was written to it, what was cleared and why. Then the
    bill, beside the bill of the same session with caching alone, and with nothing.
    """
    from everturn.dashboard.call_chart import NamedCost, draw_bills, draw_steps
    from everturn.decide.policy import get_policy
    from everturn.measure.capabilities import ANTHROPIC, PLAIN
    from everturn.measure.model_table import find_model
    from everturn.replay.demo_session import make_demo_session
    from everturn.replay.twin_replay import TwinReplaySettings, replay_against_twin

    model = find_model(model_id)
    if model is None:
        raise click.BadParameter(f"there is no model {model_id!r}", param_hint="--model")
    records, head = make_demo_session(seed=seed, turns=turns)
    pause = {turns // 2 + 1: timedelta(minutes=idle)}
    click.echo(
        f"An agent of {turns} turns on {model.display_name}.\n{idle} minutes idle after turn {turns // 2}.\n"
    )
    bills: list[NamedCost] = []
    for name, kept, able in (
        ("everturn", "claude-code", ANTHROPIC),
        ("caching alone", "none", ANTHROPIC),
        ("nothing", "none", PLAIN),
    ):
        scene = TwinReplaySettings(model=model, policy=get_policy(kept), capabilities=able, head=head)
        steps = list(islice(replay_against_twin(records, scene, pause), turns))
        bills.append(NamedCost(name, sum((step.dollars for step in steps), Decimal())))
        if name == "everturn":
            draw_steps(steps, sys.stdout, color=color)
            right = sum(step.as_predicted for step in steps)
            click.echo(f"\n{right} of {len(steps)} calls read and wrote exactly what was predicted.\n")
    draw_bills(bills, sys.stdout, color=color)


@demo.command()
@click.option("--compactions", type=click.IntRange(1, 20), default=3, show_default=True, help="When to stop.")
@click.option("--seed", type=int, default=7, show_default=True, help="Another seed, another session.")
@click.option("--model", "model_id", default="claude-sonnet-4-5", show_default=True)
@click.option("--color/--no-color", default=True, help="Colours, where the terminal has them.")
def compact(compactions: int, seed: int, model_id: str, color: bool) -> None:
    """A conversation that never ends: it fills the window, is compacted, and goes on.

    One line for every ten calls, as long as the context is full; a line for each compaction, with what it
    kept and what it dropped. Then the bill.
    """
    from everturn.dashboard.long_session_chart import draw
    from everturn.measure.model_table import find_model
    from everturn.replay.long_session import run_long_session

    model = find_model(model_id)
    if model is None:
        raise click.BadParameter(f"there is no model {model_id!r}", param_hint="--model")
    times = "once" if compactions == 1 else f"{compactions} times"
    click.echo(f"An agent on {model.display_name}, compacted {times}.\n")
    draw(
        run_long_session(model=model, compactions=compactions, seed=seed),
        model.window,
        sys.stdout,
        color=color,
    )
