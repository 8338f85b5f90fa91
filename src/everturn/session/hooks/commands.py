"""Run one command hook, with limits on time and output; at the timeout its child processes are killed too.

The command gets the payload as JSON on standard input, and an environment without secrets. Failures are
reported in `HookOutput.problems`.
"""

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

import msgspec

from everturn.session.hooks.rules import MAX_CHARACTERS, HookOutput
from everturn.session.hooks.settings import CommandHook

# A command that exits with this code blocks the action (HK-2).
BLOCKING_EXIT_CODE: Final = 2
# Enough for the longest texts that are used, in JSON with every character escaped. The rest is discarded.
MAX_OUTPUT_BYTES: Final = 16 * MAX_CHARACTERS
# Seconds to wait for output after the command has ended: its child processes may still hold the pipe open.
GRACE: Final = 0.2
# Environment variables that a command needs for programs and locale. None of them holds a secret.
PASSED_ON: Final = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LANGUAGE", "TZ", "TMPDIR",
    "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "VIRTUAL_ENV",
    "CLAUDE_CONFIG_DIR", "CLAUDE_PROJECT_DIR", "CLAUDE_CODE_SESSION_ID", "CLAUDE_ENV_FILE",
)  # fmt: skip


def environment_for_hooks(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name in PASSED_ON or name.startswith("LC_")}


def run_command(hook: CommandHook, payload: bytes, *, cwd: str, environment: Mapping[str, str]) -> HookOutput:
    """Run the command until it ends or times out."""
    try:
        process = subprocess.Popen(
            hook.run.argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd or None,
            env=environment_for_hooks(environment),
            # A process group of its own, so that its child processes can be killed with it.
            start_new_session=True,
        )
    except (OSError, ValueError) as problem:
        return HookOutput(problems=(f"could not be started: {problem}",))
    try:
        output, errors, in_time = _talk(process, payload, time.monotonic() + hook.seconds)
        code = process.poll()
    finally:
        _end(process)
    if not in_time:
        return HookOutput(problems=(f"took longer than {hook.seconds:g} s and was killed",))
    return parse_command_output(code or 0, output, errors)


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


def _talk(process: subprocess.Popen[bytes], payload: bytes, deadline: float) -> tuple[bytes, bytes, bool]:
    """Write the payload and read the output at the same time, so that neither side blocks. Returns both
    streams, and whether the command ended in time."""
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    streams = {process.stdout.fileno(): bytearray(), process.stderr.fileno(): bytearray()}
    unsent = memoryview(payload)
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdin.fileno(), selectors.EVENT_WRITE)
        os.set_blocking(process.stdin.fileno(), False)
        for stream in streams:
            selector.register(stream, selectors.EVENT_READ)
        ends = deadline
        while selector.get_map():
            now = time.monotonic()
            if process.poll() is not None and ends == deadline:
                ends = min(deadline, now + GRACE)
            if now >= ends:
                break
            for key, _ in selector.select(min(ends - now, GRACE / 4)):
                if key.fd in streams:
                    _read_some(selector, key.fd, streams[key.fd])
                else:
                    unsent = _send_some(selector, key.fd, unsent, process)
    with suppress(subprocess.TimeoutExpired):
        process.wait(max(0, deadline - time.monotonic()))
    output, errors = streams.values()
    return bytes(output), bytes(errors), process.poll() is not None


def _read_some(selector: selectors.BaseSelector, stream: int, kept: bytearray) -> None:
    data = os.read(stream, 65_536)
    kept += data[: MAX_OUTPUT_BYTES - len(kept)]
    if not data:
        selector.unregister(stream)


def _send_some(
    selector: selectors.BaseSelector, stream: int, unsent: memoryview, process: subprocess.Popen[bytes]
) -> memoryview:
    try:
        unsent = unsent[os.write(stream, unsent[:65_536]) :]
    except BlockingIOError:
        return unsent
    except OSError:
        # The command closed its input without reading all of it, which is allowed.
        unsent = unsent[:0]
    if not unsent:
        selector.unregister(stream)
        assert process.stdin is not None
        with suppress(OSError):
            process.stdin.close()
    return unsent


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill what is left of the command and its child processes."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with suppress(OSError):
                stream.close()
