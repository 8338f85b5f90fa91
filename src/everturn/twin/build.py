"""A twin put together: its clock, its speaker and its faults, tied to each other.

`Twin` takes its parts as arguments; this is the one place that knows how they belong together, for the
command line, the fixture and tests.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from everturn.errors import InputError
from everturn.twin.clock import RealClock, VirtualClock
from everturn.twin.control import object_from, read_faults, read_script
from everturn.twin.faults import Faults
from everturn.twin.options import TwinOptions
from everturn.twin.playback import said_from_records
from everturn.twin.script import Line, Speaker
from everturn.twin.service import Twin
from everturn.twin.values import Refusal, Said
from everturn.wire.claude_code import read


def build(
    *,
    clock: Literal["virtual", "real"] = "virtual",
    options: TwinOptions | None = None,
    lines: Iterable[Line] = (),
    playback: Iterable[Said] = (),
    faults: Faults | None = None,
    seed: int = 0,
) -> Twin:
    options = options or TwinOptions()
    faults = faults or Faults(seed=seed)
    return Twin(
        clock=VirtualClock(options.starts_at) if clock == "virtual" else RealClock(),
        options=options,
        speaker=Speaker(lines, playback=playback, faults=faults, seed=seed),
        faults=faults,
        seed=seed,
    )


def lines_from(file: Path) -> tuple[Line, ...]:
    """The replies of a script file: the body of `POST /twin/script`."""
    try:
        return read_script(object_from(file.read_bytes()))
    except Refusal as problem:
        raise InputError(f"{file} is not a script: {problem.message}") from None


def recorded(file: Path) -> list[Said]:
    """The replies of a recorded Claude Code session."""
    replies = said_from_records(read(file.read_bytes()).records)
    if not replies:
        raise InputError(f"{file} holds no reply of an assistant; give a recorded Claude Code session.")
    return replies


def faults_from(file: Path, *, seed: int) -> Faults:
    """The faults of a file: the body of `POST /twin/faults`."""
    try:
        plan = read_faults(object_from(file.read_bytes()))
    except Refusal as problem:
        raise InputError(f"{file} holds no faults that the twin knows: {problem.message}") from None
    return Faults(plan.faults or (), chances=plan.chances, seed=plan.seed or seed)
