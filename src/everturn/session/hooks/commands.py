"""Run one command hook, with limits on time and output; at the timeout its child processes are killed too.

The command gets the payload as JSON on standard input, and an environment without secrets. Failures are
reported in `HookOutput.problems`.
"""

import os
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from everturn.processes import find_program, minimal_environment, run_process
from everturn.session.hooks.rules import MAX_CHARACTERS, HookOutput
from everturn.session.hooks.settings import CommandHook

# A command that exits with this code blocks the action (HK-2).
BLOCKING_EXIT_CODE: Final = 2
# Enough for the longest texts that are used, in JSON with every character escaped. The rest is discarded.
MAX_OUTPUT_BYTES: Final = 16 * MAX_CHARACTERS


def run_command(hook: CommandHook, payload: bytes, *, cwd: str, environment: Mapping[str, str]) -> HookOutput:
    """Run the command until it ends or times out."""
    program, *arguments = hook.run.argv
    folder = os.path.abspath(cwd or ".")
    # A trusted hook may name a program of the project; its relative path starts at the project's folder.
    named = os.path.join(folder, program) if os.path.dirname(program) and program[0] != "~" else program
    found = find_program(named, environment.get("PATH", os.defpath))
    if not found:
        return HookOutput(problems=(f"could not be started: no program {program} found",))
    try:
        done = run_process(
            [found, *arguments],
            environment=minimal_environment(environment),
            seconds=hook.seconds,
            cwd=folder,
            given=payload,
            max_bytes=MAX_OUTPUT_BYTES,
        )
    except (OSError, ValueError) as problem:
        return HookOutput(problems=(f"could not be started: {problem}",))
    if done.is_late:
        return HookOutput(problems=(f"took longer than {hook.seconds:g} s and was killed",))
    return parse_command_output(done.code, done.output, done.errors)


def parse_command_output(code: int, output: bytes, errors: bytes) -> HookOutput:
    """Interpret an exit code, standard output and standard error."""
    if code == BLOCKING_EXIT_CODE:
        return HookOutput(blocks=errors.decode(errors="replace"))
    parsed, problem = _parse_output(output)
    problems = (problem,) if problem else ()
    if code:
        ended = f"ended with code {code}" if code > 0 else f"was ended by signal {-code}"
        first_line = errors.decode(errors="replace").strip().partition("\n")[0][:200]
        problems = (f"{ended}: {first_line}" if first_line else ended, *problems)
        # Of a failing command only JSON output is used: plain text may be an error message.
        parsed = parsed if isinstance(parsed, Mapping) else ""
    return HookOutput(parsed, problems=problems)


def _parse_output(output: bytes) -> tuple[str | Mapping[str, Any], str]:
    """The output as a text or a JSON object, and the problem with it, or ""."""
    try:
        text = output.decode()
    except UnicodeDecodeError:
        text = output.decode(errors="replace") if len(output) >= MAX_OUTPUT_BYTES else "\0"
    if "\0" in text:
        return "", "printed output that is not text; it was ignored"
    if not text.lstrip().startswith("{"):
        return text, ""
    try:
        return msgspec.json.decode(output, type=dict[str, Any]), ""
    except (msgspec.MsgspecError, RecursionError):
        return "", "printed invalid JSON; it was ignored"
