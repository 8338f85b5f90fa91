"""A twin put together: its clock, its speaker and its faults, tied to each other.

`Twin` takes its parts as arguments; this is the one place that knows how they belong together, for the
command line, the fixture and tests.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from everturn.errors import InputError
from everturn.twin.clock import RealClock, VirtualClock
from everturn.twin.control import decode_object, read_faults, read_script
from everturn.twin.faults import FaultInjector
from everturn.twin.options import TwinOptions
from everturn.twin.playback import extract_replies
from everturn.twin.service import Twin
from everturn.twin.speaker import ScriptedReply, Speaker
from everturn.twin.values import ApiError, ModelOutput
from everturn.wire.claude_code_reader import parse_session_file


def build_twin(
    *,
    clock: Literal["virtual", "real"] = "virtual",
    options: TwinOptions | None = None,
    lines: Iterable[ScriptedReply] = (),
    playback: Iterable[ModelOutput] = (),
    faults: FaultInjector | None = None,
    seed: int = 0,
) -> Twin:
    options = options or TwinOptions()
    faults = faults or FaultInjector(seed=seed)
    return Twin(
        clock=VirtualClock(options.starts_at) if clock == "virtual" else RealClock(),
        options=options,
        speaker=Speaker(lines, playback=playback, faults=faults, seed=seed),
        faults=faults,
        seed=seed,
    )


def load_script(file: Path) -> tuple[ScriptedReply, ...]:
    """The replies of a script file: the body of `POST /twin/script`."""
    try:
        return read_script(decode_object(file.read_bytes()))
    except ApiError as problem:
        raise InputError(f"{file} is not a script: {problem.message}") from None


def load_recorded_replies(file: Path) -> list[ModelOutput]:
    """The replies of a recorded Claude Code session."""
    replies = extract_replies(parse_session_file(file.read_bytes()).records)
    if not replies:
        raise InputError(f"{file} holds no reply of an assistant; give a recorded Claude Code session.")
    return replies


def load_faults(file: Path, *, seed: int) -> FaultInjector:
    """The faults of a file: the body of `POST /twin/faults`."""
    try:
        plan = read_faults(decode_object(file.read_bytes()))
    except ApiError as problem:
        raise InputError(f"{file} holds no faults that the twin knows: {problem.message}") from None
    return FaultInjector(plan.faults or (), chances=plan.chances, seed=plan.seed or seed)
