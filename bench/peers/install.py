"""Sets up an environment for each peer: `python -m peers.install`. Once, and when its packages change.

What cannot be installed is no error here: the reason is kept, and stands in the tables instead of numbers.
"""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from peers.who import HOME, PEERS, Peer

# What everturn itself needs. Peers come after it, with pins of their own: they do not agree with all of ours.
_EVERTURN = ("-c", "requirements.txt", "msgspec", "click", "rich", "hatchling", "editables")
_PINS = ("-c", "requirements-peers.txt")
_NEWEST_PYTHON = 20


class _Impossible(Exception):
    pass


def main() -> int:
    HOME.mkdir(parents=True, exist_ok=True)
    for peer in PEERS:
        if peer.packages and not _is_there(peer):
            print(f"Setting up {peer.folder} ...", flush=True)
            _set_up(peer)
    return 0


def _stamp(peer: Peer) -> str:
    pins = Path(_PINS[-1]).read_text("utf-8")
    return f"{peer.packages} {peer.alone} {peer.python}\n{pins}"


def _is_there(peer: Peer) -> bool:
    stamp = peer.folder / ".installed"
    return stamp.is_file() and stamp.read_text("utf-8") == _stamp(peer)


def _set_up(peer: Peer) -> None:
    shutil.rmtree(peer.folder, ignore_errors=True)
    peer.problem.unlink(missing_ok=True)
    try:
        _run(_python(peer), "-m", "venv", str(peer.folder))
        _pip(peer, *_EVERTURN)
        _pip(peer, "--no-deps", "--no-build-isolation", "--editable", ".")
        _pip(peer, *_PINS, *peer.packages)
        if peer.alone:
            _pip(peer, *_PINS, "--no-deps", *peer.alone)
    except _Impossible as reason:
        peer.problem.write_text(f"could not be installed: {reason}\n", "utf-8")
        print(f"  {reason}", flush=True)
        return
    (peer.folder / ".installed").write_text(_stamp(peer), "utf-8")


def _python(peer: Peer) -> str:
    """The first interpreter that is new enough: the one that runs, one on the path, one that pyenv has."""
    if sys.version_info >= peer.python:
        return sys.executable
    major, minor = peer.python
    for name in (f"python{major}.{number}" for number in range(minor, _NEWEST_PYTHON)):
        if found := next(_candidates(name), None):
            return found
    raise _Impossible(f"it needs Python {major}.{minor} or newer, and there is none here")


def _candidates(name: str) -> Iterator[str]:
    if (found := shutil.which(name)) and subprocess.run([found, "-V"], capture_output=True).returncode == 0:
        yield found
    versions = Path.home() / ".pyenv" / "versions"
    yield from (str(each) for each in sorted(versions.glob(f"*/bin/{name}")))


def _pip(peer: Peer, *arguments: str) -> None:
    _run(str(peer.interpreter), "-m", "pip", "--disable-pip-version-check", "-qq", "install", *arguments)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if "ERROR" in line] or done.stderr.splitlines()
        raise _Impossible(said[-1].removeprefix("ERROR: ") if said else f"{command[0]} failed")


if __name__ == "__main__":
    sys.exit(main())
