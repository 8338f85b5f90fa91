"""Commands of everturn, each in a process of its own that need not import anything first.

One process has imported all commands, and forks for each. The child has its own folder, environment, input,
limits and end, as one that a shell starts; only the time of the imports is missing. What a command imports,
and how long it takes to start, is tested elsewhere with real starts (`tests/architecture/test_startup.py`).

    one line in    arguments of `run`, as JSON
    one line out   [exit code, standard output, standard error], the last two as hexadecimal numbers
"""

import atexit
import gc
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import IO, Any

SECONDS = 60
# What commands import while they run.
SLOW = ("anthropic", "everturn.chat.start", "everturn.session.session", "everturn.twin.build", "rich.console")


def run(
    *arguments: str,
    cwd: Path,
    env: dict[str, str],
    given: bytes = b"",
    memory: int = resource.RLIM_INFINITY,
) -> "subprocess.CompletedProcess[bytes]":
    """`everturn` with these arguments; fails as `subprocess.run` does if it takes a minute."""
    from surface_watch import entered

    entered.add("command")
    os.umask(mask := os.umask(0))
    asked = {"arguments": arguments, "cwd": str(cwd), "env": env, "given": given.hex(), "memory": memory}
    into, out = _warm_process()
    print(json.dumps({**asked, "umask": mask}), file=into, flush=True)
    code, said, problems = json.loads(out.readline())
    if code == -signal.SIGALRM:
        raise subprocess.TimeoutExpired(arguments, SECONDS)
    return subprocess.CompletedProcess(arguments, code, bytes.fromhex(said), bytes.fromhex(problems))


@cache
def _warm_process() -> tuple[IO[str], IO[str]]:
    """It ends when its input is closed, so also when this process is killed."""
    # Nothing of the user's environment: Python looks at it before a child could change it.
    warm = subprocess.Popen(
        [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={"PATH": os.environ["PATH"]}, cwd="/",
    )  # fmt: skip
    assert warm.stdin is not None
    assert warm.stdout is not None
    atexit.register(_end, warm)
    return warm.stdin, warm.stdout


def _end(warm: "subprocess.Popen[str]") -> None:
    # Not by closing its input alone: what was forked meanwhile may hold it open.
    with warm:
        warm.terminate()


def _serve() -> None:
    from everturn.cli import COMMANDS

    for name in (*SLOW, *(place.partition(":")[0] for place, _ in COMMANDS.values())):
        import_module(name)
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        file = tempfile.TemporaryFile
        with file() as given, file() as out, file() as err:
            asked = json.loads(line)
            given.write(bytes.fromhex(asked["given"]))
            given.seek(0)
            child = os.fork()
            if child == 0:
                for number, each in enumerate((given, out, err)):
                    os.dup2(each.fileno(), number)
                return _become(asked)
            _, status = os.waitpid(child, 0)
            answer: list[Any] = [os.waitstatus_to_exitcode(status)]
            for each in (out, err):
                each.seek(0)
                answer.append(each.read().hex())
        print(json.dumps(answer), flush=True)
    return None


def _become(asked: dict[str, Any]) -> None:
    from everturn.__main__ import main

    sys.stdin = open(0, encoding=sys.stdin.encoding, errors=sys.stdin.errors, closefd=False)  # noqa: SIM115
    signal.alarm(SECONDS)
    os.umask(asked["umask"])
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    resource.setrlimit(resource.RLIMIT_AS, (asked["memory"], asked["memory"]))
    sys.argv = ["everturn", *asked["arguments"]]
    code = 1
    try:
        code = main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    # As an interpreter ends, but without taking all modules apart.
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    _serve()
