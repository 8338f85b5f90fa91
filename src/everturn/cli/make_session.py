"""`everturn make-session`: writes a synthetic session for tests and experiments."""

import sys
from collections.abc import Callable
from typing import IO, Any

import click

from everturn.replay.synthetic import SessionShape, generate_session

DEFAULT_SHAPE = SessionShape()


def _count(name: str, default: int, text: str) -> Callable[[Any], Any]:
    return click.option(name, type=click.IntRange(min=0), default=default, show_default=True, help=text)


@click.command("make-session")
@click.option(
    "--tokens", type=int, default=50_000, show_default=True, help="Size of the conversation in tokens."
)
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of the session.")
@click.option("--out", type=click.File("wb", lazy=True), help="Output file; standard output if not given.")
@_count("--boundaries", DEFAULT_SHAPE.boundaries, "Number of compactions.")
@_count(
    "--microcompactions",
    DEFAULT_SHAPE.microcompactions,
    "Number of microcompactions (old tool results cleared).",
)
@_count("--sidechains", DEFAULT_SHAPE.sidechains, "Number of sub-agents in the same file.")
@_count(
    "--images",
    DEFAULT_SHAPE.images,
    "Number of prompts with an image; each is followed by an image in a tool result.",
)
@_count("--idle-gaps", DEFAULT_SHAPE.idle_gaps, "Number of pauses of minutes to hours.")
@_count("--forks", DEFAULT_SHAPE.forks, "Number of prompts that are rewound.")
@_count("--model-switches", DEFAULT_SHAPE.model_switches, "Number of model changes.")
@click.option(
    "--cache-lifetime",
    type=click.Choice(["5m", "1h"]),
    default=DEFAULT_SHAPE.cache_lifetime,
    show_default=True,
    help="Lifetime of cache entries.",
)
@click.option(
    "--model", default=DEFAULT_SHAPE.model, show_default=True, help="The model named in the replies."
)
@click.option(
    "--display-copies",
    type=click.Choice(["whole", "short"]),
    default=DEFAULT_SHAPE.display_copies,
    show_default=True,
    help="Whether toolUseResult holds whole results, as in real files, or short copies.",
)
def make_session(tokens: int, seed: int, out: IO[bytes] | None, **shape: Any) -> None:
    """Generate a synthetic coding session in the format of Claude Code.

    The same options give the same bytes. Sizes are estimated at three characters per token, without system
    prompt, tools and sub-agents.
    """
    file = out or sys.stdout.buffer
    for line in generate_session(seed=seed, tokens=tokens, shape=SessionShape(**shape)):
        file.write(line + b"\n")
