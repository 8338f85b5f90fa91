"""One command hook: started, fed, read up to a cap, and gone when its time is over, children included.

It gets the payload as JSON on standard input and an environment without keys. Everything that can go wrong
with it ends as a sentence in `Said.problems`.
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

# Ends with this code: what was about to happen shall not (HK-2).
BLOCKING_EXIT_CODE: Final = 2
# Room for the longest texts that are used, in JSON with everything escaped. What is beyond is read and lost.
MAX_OUTPUT_BYTES: Final = 16 * MAX_CHARACTERS
# After the command itself has ended, children may still hold its output open: this long is waited for it.
GRACE: Final = 0.2
# What a command needs to find its tools and speak the user's language; keys are not among it.
PASSED_ON: Final = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LANGUAGE", "TZ", "TMPDIR",
    "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "VIRTUAL_ENV",
    "CLAUDE_CONFIG_DIR", "CLAUDE_PROJECT_DIR", "CLAUDE_CODE_SESSION_ID", "CLAUDE_ENV_FILE",
)  # fmt: skip


def environment_for_hooks(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name in PASSED_ON or name.startswith("LC_")}


def run_command(hook: CommandHook, payload: bytes, *, cwd: str, environment: Mapping[str, str]) -> HookOutput:
    """Run it to its end or to the end of its time."""
    try:
        process = subprocess.Popen(
            hook.run.argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd or None,
            env=environment_for_hooks(environment),
            # A group of its own, so that it can be ended with everything that it started.
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
        return HookOutput(problems=(f"took longer than {hook.seconds:g} s and was ended",))
    return parse_command_output(code or 0, output, errors)


def parse_command_output(code: int, output: bytes, errors: bytes) -> HookOutput:
    """What an exit code and two streams mean."""
    if code == BLOCKING_EXIT_CODE:
        return HookOutput(blocks=errors.decode(errors="replace"))
    words, problem = _words(output)
    problems = (problem,) if problem else ()
    if code:
        ended = f"ended with code {code}" if code > 0 else f"was ended by signal {-code}"
        told = errors.decode(errors="replace").strip().partition("\n")[0][:200]
        problems = (f"{ended}: {told}" if told else ended, *problems)
        # What a failing command prints is used only where it is clearly meant: as JSON.
        words = words if isinstance(words, Mapping) else ""
    return HookOutput(words, problems=problems)


def _words(output: bytes) -> tuple[str | Mapping[str, Any], str]:
    try:
        text = output.decode()
    except UnicodeDecodeError:
        text = output.decode(errors="replace") if len(output) >= MAX_OUTPUT_BYTES else "\0"
    if "\0" in text:
        return "", "printed what is no text; it was left out"
    if not text.lstrip().startswith("{"):
        return text, ""
    try:
        return msgspec.json.decode(output, type=dict[str, Any]), ""
    except (msgspec.MsgspecError, RecursionError):
        return "", "printed what begins like JSON and is none; it was left out"


def _talk(process: subprocess.Popen[bytes], payload: bytes, deadline: float) -> tuple[bytes, bytes, bool]:
    """Feed and read at once, so that neither side waits for the other. False when the time was over."""
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
        # A command need not read what it is told.
        unsent = unsent[:0]
    if not unsent:
        selector.unregister(stream)
        assert process.stdin is not None
        with suppress(OSError):
            process.stdin.close()
    return unsent


def _end(process: subprocess.Popen[bytes]) -> None:
    """Whatever is left of the command and what it started."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with suppress(OSError):
                stream.close()
