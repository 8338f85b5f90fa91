"""`everturn make-session`: a session that never happened, to try things on."""

import sys
from collections.abc import Callable
from typing import IO, Any

import click

from everturn.replay.synthetic import SessionShape, generate_session

DEFAULT_SHAPE = SessionShape()


def _count(name: str, default: int, text: str) -> Callable[[Any], Any]:
    return click.option(name, type=click.IntRange(min=0), default=default, show_default=True, help=text)


@click.command("make-session")
@click.option("--tokens", type=int, default=50_000, show_default=True, help="Size of the conversation.")
@click.option("--seed", type=int, default=1, show_default=True, help="Another seed, another session.")
@click.option("--out", type=click.File("wb", lazy=True), help="Where to write; standard output if not given.")
@_count("--boundaries", DEFAULT_SHAPE.boundaries, "Compactions.")
@_count("--microcompactions", DEFAULT_SHAPE.microcompactions, "Clearings of old tool results.")
@_count("--sidechains", DEFAULT_SHAPE.sidechains, "Agents that work in the same file.")
@_count("--images", DEFAULT_SHAPE.images, "Prompts with a picture, each answered with another one.")
@_count("--idle-gaps", DEFAULT_SHAPE.idle_gaps, "Pauses of minutes to hours.")
@_count("--forks", DEFAULT_SHAPE.forks, "Prompts that were taken back.")
@_count("--model-switches", DEFAULT_SHAPE.model_switches, "Changes of the model.")
@click.option(
    "--cache-lifetime",
    type=click.Choice(["5m", "1h"]),
    default=DEFAULT_SHAPE.cache_lifetime,
    show_default=True,
    help="How long the cache of the API keeps an entry.",
)
@click.option(
    "--model", default=DEFAULT_SHAPE.model, show_default=True, help="Which model seems to have answered."
)
@click.option(
    "--display-copies",
    type=click.Choice(["whole", "short"]),
    default=DEFAULT_SHAPE.display_copies,
    show_default=True,
    help="Whether toolUseResult repeats whole results, as real files do.",
)
def make_session(tokens: int, seed: int, out: IO[bytes] | None, **shape: Any) -> None:
    """Make up a coding session in the format of Claude Code.

    The same options give the same bytes. Sizes are estimated at three characters per token and leave
    out system prompt, tools and agents.
    """
    file = out or sys.stdout.buffer
    for line in generate_session(seed=seed, tokens=tokens, shape=SessionShape(**shape)):
        file.write(line + b"\n")
