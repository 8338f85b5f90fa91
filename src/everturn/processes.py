"""Starts every process of everturn; no other module does.

A repository must not choose what runs or what it is told. So a program is found by us, at an absolute path
outside of the folder that is worked on; it is started with an argument vector, never through a shell of ours;
its environment has no keys; its time and output are limited; it and everything it started are killed at the
end, and also when we are killed ourselves.
"""

import errno
import os
import re
import selectors
import signal
import stat
import subprocess
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple

from everturn.redaction import REDACTED, redact_secrets

# Seconds to wait for output after a process has ended: its child processes may still hold the pipe open. Also
# the time that a process has between SIGTERM and SIGKILL.
GRACE_SECONDS: Final = 0.5
MAX_OUTPUT_BYTES: Final = 64 * 1024 * 1024
# No program of ours needs a working directory, and a program may load files from it.
NEUTRAL_FOLDER: Final = "/"
_CHUNK: Final = 65_536
_SHELL: Final = "/bin/sh"
# Waits until the pipe that only we hold open is closed, which it is if we die, and kills the group.
_WATCH: Final = 'read -r _; kill -s KILL -- "-$0"'

# Environment variables that a program needs for programs and locale. None of them holds a secret.
MINIMAL_VARIABLES: Final = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LANGUAGE", "TZ", "TMPDIR",
    "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "VIRTUAL_ENV",
    "CLAUDE_CONFIG_DIR", "CLAUDE_PROJECT_DIR", "CLAUDE_CODE_SESSION_ID", "CLAUDE_ENV_FILE",
)  # fmt: skip
# Names of variables that hold keys, for programs that get everything else.
_SECRET_PREFIXES: Final = ("ANTHROPIC_", "EVERTURN_PROVIDER_", "CLAUDE_CODE_OAUTH")
_SECRET_ENDINGS: Final = re.compile(
    r"(?:(?:\A|_)(?:keys?|tokens?|pat|jwt|auth|auth_?config|secrets?|pwd|pass|cookies?|bearer|dsn|webhook|webhook_?url"
    r"|credentials?)|api_?key|access_?key|secret_?key|private_?key|auth_?token|password|passwd|passphrase)\Z",
    re.IGNORECASE,
)
# A password in an address: postgres://user:password@host.
_PASSWORD_IN_URL: Final = re.compile(r"://[^\s/@:]{0,200}:[^\s/@]{1,200}@")


def end_with_parent() -> None:
    """In a worker of a process pool: ends it when the process that started it is gone, however it ended. Who
    was killed cannot tell its workers, and they would wait for work for ever."""
    # Not above: a worker has it already, and a command that starts quickly does not need it.
    from multiprocessing import parent_process

    if (parent := parent_process()) is not None:
        threading.Thread(target=_end_after, args=(parent.join,), name="parent watch", daemon=True).start()


def _end_after(wait: Callable[[], None]) -> None:
    wait()
    os._exit(1)


class FinishedProcess(NamedTuple):
    """`code` is negative for a signal. `is_late`: it was killed at the end of its time."""

    code: int
    output: bytes = b""
    errors: bytes = b""
    is_late: bool = False


def minimal_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """What a program needs that has nothing to do with the user's work: no variable but those listed."""
    return {
        name: value
        for name, value in environment.items()
        if name in MINIMAL_VARIABLES or name.startswith("LC_")
    }


def environment_without_keys(environment: Mapping[str, str]) -> dict[str, str]:
    """The user's environment, for commands of the user's own work, without variables that hold keys: by the
    end of their name, or because the whole value looks like a key."""
    return {name: value for name, value in environment.items() if not _holds_key(name, value)}


def _holds_key(name: str, value: str) -> bool:
    # PWD is the working directory; the same word ends the names of passwords.
    if name in ("PWD", "OLDPWD"):
        return False
    is_named_so = name.startswith(_SECRET_PREFIXES) or _SECRET_ENDINGS.search(name) is not None
    return is_named_so or redact_secrets(value) == REDACTED or _PASSWORD_IN_URL.search(value) is not None


def find_program(name: str, path: str, *, outside: str = "") -> str:
    """The absolute path of a program, or "". Relative entries of the PATH are passed over: they mean the
    working directory. So is everything below `outside`, with links resolved."""
    if os.path.dirname(name):
        candidates = [os.path.expanduser(name)]
    else:
        candidates = [os.path.join(folder, name) for folder in path.split(os.pathsep)]
    for each in candidates:
        if os.path.isabs(each) and _is_program(each) and not (outside and _is_below(each, outside)):
            return each
    return ""


def _is_program(path: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode) and os.access(path, os.X_OK)
    except (OSError, ValueError):
        return False


def _is_below(path: str, folder: str) -> bool:
    """Whether the program, or the name by which it is found, is in the folder."""
    top = os.path.realpath(folder).rstrip("/") + "/"
    named = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
    return any(each.startswith(top) for each in (named, os.path.realpath(path)))


def run_process(
    argv: Sequence[str],
    *,
    environment: Mapping[str, str],
    seconds: float,
    cwd: str = NEUTRAL_FOLDER,
    given: bytes = b"",
    max_bytes: int = MAX_OUTPUT_BYTES,
    listen: Callable[[bytes], None] | None = None,
) -> FinishedProcess:
    """Run a program until it ends or its time is over. Raises OSError if it cannot be started.

    `environment` is passed on as it is: make it with one of the functions above. Of each output so many bytes
    are kept and the rest is discarded; with `listen`, output and errors go there together instead.
    """
    if not os.path.isabs(argv[0]):
        raise FileNotFoundError(errno.ENOENT, "its program was not found", argv[0])
    with _started(argv, environment, cwd, has_one_output=listen is not None) as process:
        output = {stream.fileno(): bytearray() for stream in (process.stdout, process.stderr) if stream}
        talk = _Talk(process, given, output, max_bytes, listen)
        is_late = talk.until(time.monotonic() + seconds)
    kept = [bytes(each) for each in output.values()]
    return FinishedProcess(process.returncode, kept[0], kept[1] if len(kept) > 1 else b"", is_late)


def run_in_foreground(argv: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a command of the user with our input, output and terminal, until it ends. Returns its exit code,
    negative for a signal. Signals that reach only us are passed on: the terminal sends its own to both."""
    passed_on = [signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2]
    from_terminal = [signal.SIGINT, signal.SIGQUIT]
    # Handlers come first: the command may be running before `Popen` returns.
    started: list[subprocess.Popen[bytes]] = []
    early: list[int] = []

    def pass_on(number: int, _: object) -> None:
        if number in from_terminal and _is_in_foreground(started[0].pid if started else os.getpid()):
            return
        if started:
            started[0].send_signal(number)
        else:
            early.append(number)

    handled = {each: signal.signal(each, pass_on) for each in (*passed_on, *from_terminal)}
    try:
        with subprocess.Popen(argv, env=dict(environment)) as process:
            started.append(process)
            for number in early:
                process.send_signal(number)
            return process.wait()
    finally:
        for number, handler in handled.items():
            signal.signal(number, handler)


def _is_in_foreground(pid: int) -> bool:
    """Whether a process gets what is typed at our terminal, such as Ctrl-C. Our input may be a file or a pipe
    all the same."""
    for number in range(3):
        # Not a terminal, not ours, or the process has ended.
        with suppress(OSError):
            return os.tcgetpgrp(number) == os.getpgid(pid)
    return False


@contextmanager
def _started(
    argv: Sequence[str], environment: Mapping[str, str], cwd: str, *, has_one_output: bool
) -> Generator["subprocess.Popen[bytes]"]:
    """A process in a group of its own, so that Ctrl-C reaches only us and the group can be killed. It is
    killed and collected at the end, whatever happens."""
    process = subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if has_one_output else subprocess.PIPE,
        cwd=cwd,
        env=dict(environment),
        start_new_session=True,
    )
    watcher = None
    try:
        watcher = _watch(process.pid)
        yield process
    finally:
        try:
            _end_group(process)
        finally:
            # Before the process is collected: from then on its number may belong to another one.
            if watcher is not None:
                watcher.kill()
                watcher.wait()
                _close(watcher.stdin)
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                _close(stream)


def _watch(group: int) -> "subprocess.Popen[bytes] | None":
    try:
        return subprocess.Popen(
            [_SHELL, "-c", _WATCH, str(group)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=NEUTRAL_FOLDER,
            env={},
            start_new_session=True,
        )
    except OSError:
        # Without a shell nothing watches; time limits hold all the same.
        return None


def _end_group(process: "subprocess.Popen[bytes]") -> None:
    """SIGTERM, then SIGKILL. The group exists even if its first process is gone, until that is collected."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGTERM)
        try:
            _wait_without_collecting(process, GRACE_SECONDS)
        finally:
            # In `finally`, because a second Ctrl-C can interrupt the wait.
            os.killpg(process.pid, signal.SIGKILL)


def _wait_without_collecting(process: "subprocess.Popen[bytes]", seconds: float) -> None:
    until = time.monotonic() + seconds
    while not _has_ended(process) and time.monotonic() < until:
        time.sleep(0.005)


def _has_ended(process: "subprocess.Popen[bytes]") -> bool:
    """Whether it has ended, without collecting it: its number stays its own until then."""
    if process.returncode is not None:
        return True
    try:
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def _close(stream: object) -> None:
    with suppress(OSError):
        if stream is not None:
            stream.close()  # type: ignore[attr-defined]


class _Talk:
    """Writes the input and reads the output at the same time, so that neither side blocks."""

    def __init__(
        self,
        process: "subprocess.Popen[bytes]",
        given: bytes,
        output: dict[int, bytearray],
        max_bytes: int,
        listen: Callable[[bytes], None] | None,
    ) -> None:
        self._process, self._output = process, output
        self._max_bytes, self._listen = max_bytes, listen
        self._unsent = memoryview(given)

    def until(self, deadline: float) -> bool:
        """Returns whether the process was still running at the deadline."""
        with selectors.DefaultSelector() as selector:
            self._register(selector)
            ends = deadline
            while selector.get_map():
                now = time.monotonic()
                if ends == deadline and _has_ended(self._process):
                    ends = min(deadline, now + GRACE_SECONDS)
                if now >= ends:
                    break
                for key, _ in selector.select(min(ends - now, GRACE_SECONDS / 10)):
                    if key.fd in self._output:
                        self._read(selector, key.fd)
                    else:
                        self._send(selector, key.fd)
        _wait_without_collecting(self._process, max(0.0, deadline - time.monotonic()))
        return not _has_ended(self._process)

    def _register(self, selector: selectors.BaseSelector) -> None:
        for stream in self._output:
            selector.register(stream, selectors.EVENT_READ)
        assert self._process.stdin is not None
        if self._unsent:
            os.set_blocking(self._process.stdin.fileno(), False)
            selector.register(self._process.stdin.fileno(), selectors.EVENT_WRITE)
        else:
            self._process.stdin.close()

    def _read(self, selector: selectors.BaseSelector, stream: int) -> None:
        data = os.read(stream, _CHUNK)
        if not data:
            selector.unregister(stream)
        elif self._listen is not None:
            self._listen(data)
        else:
            kept = self._output[stream]
            kept += data[: self._max_bytes - len(kept)]

    def _send(self, selector: selectors.BaseSelector, stream: int) -> None:
        try:
            self._unsent = self._unsent[os.write(stream, self._unsent[:_CHUNK]) :]
        except BlockingIOError:
            return
        except OSError:
            # The process closed its input without reading all of it, which is allowed.
            self._unsent = self._unsent[:0]
        if not self._unsent:
            selector.unregister(stream)
            _close(self._process.stdin)
