"""Build a twin with its clock, speaker and faults, and load script and fault files.

`Twin` takes its parts as arguments. The command line, the pytest fixture and tests all build it here.
"""

import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from everturn.errors import InputError
from everturn.twin.clock import RealClock, VirtualClock
from everturn.twin.control import decode_object, read_faults, read_script
from everturn.twin.faults import FaultInjector
from everturn.twin.options import TwinOptions
from everturn.twin.options_file import read_options
from everturn.twin.playback import extract_replies
from everturn.twin.service import Twin
from everturn.twin.speaker import Agent, ScriptedReply, Speaker
from everturn.twin.values import ApiError, ModelOutput
from everturn.wire.claude_code_reader import parse_session_file


def build_twin(
    *,
    clock: Literal["virtual", "real"] = "virtual",
    options: TwinOptions | None = None,
    script: Iterable[ScriptedReply] = (),
    playback: Iterable[ModelOutput] = (),
    faults: FaultInjector | None = None,
    agent: Agent | None = None,
    seed: int = 0,
) -> Twin:
    """A new twin. Equal arguments give equal ids, replies and random faults.

    `agent` replies where script and recording do not, instead of the rule-based one.
    """
    options = options or TwinOptions()
    faults = faults or FaultInjector(seed=seed)
    return Twin(
        clock=VirtualClock(options.starts_at) if clock == "virtual" else RealClock(),
        options=options,
        speaker=Speaker(
            script,
            playback=playback,
            faults=faults,
            agent=agent,
            scripted_summaries=options.scripted_summaries,
            seed=seed,
        ),
        faults=faults,
        seed=seed,
    )


def build(**settings: Any) -> Twin:
    """The old name of `build_twin`, kept for one version. `lines` was the name of `script`."""
    warnings.warn("build() is now build_twin(), and lines= is script=", DeprecationWarning, stacklevel=2)
    if "lines" in settings:
        settings["script"] = settings.pop("lines")
    return build_twin(**settings)


def load_script(file: Path) -> tuple[ScriptedReply, ...]:
    """The replies in a script file, which has the format of `POST /twin/script`."""
    try:
        return read_script(decode_object(file.read_bytes()))
    except ApiError as problem:
        raise InputError(f"{file} is not a valid script: {problem.message}") from None


def load_options(file: Path) -> TwinOptions:
    """The options in a JSON file, such as `everturn twin verify --write-options` writes."""
    try:
        return read_options(decode_object(file.read_bytes()))
    except (ApiError, InputError) as problem:
        reason = problem.message if isinstance(problem, ApiError) else str(problem)
        raise InputError(f"{file} is not a valid options file: {reason}") from None


def load_recorded_replies(file: Path) -> list[ModelOutput]:
    """The assistant replies in a recorded Claude Code session."""
    replies = extract_replies(parse_session_file(file.read_bytes()).records)
    if not replies:
        raise InputError(f"{file} contains no assistant reply; use a recorded Claude Code session.")
    return replies


def load_faults(file: Path, *, seed: int) -> FaultInjector:
    """The faults in a file, which has the format of `POST /twin/faults`."""
    try:
        plan = read_faults(decode_object(file.read_bytes()))
    except ApiError as problem:
        raise InputError(f"{file} is not a valid faults file: {problem.message}") from None
    return FaultInjector(plan.faults or (), chances=plan.chances, seed=plan.seed or seed)
