"""Results that are kept on disk, so that no session is replayed twice under the same scheme by the same code.

A result is found by everything that it depends on: the bytes and the name of the session (a file can hold
many), the whole scheme, the version, and the code that computes it. So an old result is never shown for new
code, and deleting the folder at any time costs only time. A result is whole or absent: it is renamed into
place.
"""

import os
from collections.abc import Mapping
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from everturn.errors import StoreError
from everturn.replay.policies import ReplayPolicy
from everturn.replay.runs import ReplayRun

ValueT = TypeVar("ValueT")

# Rooms that show results and do not make them.
_SHOWS: Final = ("cli", "dashboard", "gateway", "adapters", "replay/page", "replay/parallel")
_SIZE: Final = 12


class ResultCache(msgspec.Struct, frozen=True):
    """A folder of results. `code` is whose they are; empty for the code of this process."""

    folder: str
    code: str = ""

    def for_workers(self) -> "ResultCache":
        """Workers file under the code that started them: what they find on disk may just be changing."""
        return ResultCache(self.folder, self.code or code_digest())

    def run(self, digest: str, name: str, scheme: ReplayPolicy) -> ReplayRun | None:
        return self.get(_key(digest, name, scheme), ReplayRun)

    def save_run(self, digest: str, name: str, scheme: ReplayPolicy, run: ReplayRun) -> None:
        self.put(_key(digest, name, scheme), run)

    def get(self, name: str, kind: type[ValueT]) -> ValueT | None:
        """A result that cannot be read counts as absent: it is computed again and written over."""
        try:
            return msgspec.msgpack.decode(self._path(name).read_bytes(), type=kind)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return None

    def put(self, name: str, value: object) -> None:
        path = self._path(name)
        unfinished = path.with_suffix(f".{os.getpid()}.unfinished")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            unfinished.write_bytes(msgspec.msgpack.encode(value))
            os.replace(unfinished, path)
        except OSError as problem:
            why = f"Results cannot be kept in {self.folder}: {problem.strerror}."
            raise StoreError(f"{why} Name another folder with --cache.") from None

    def _path(self, name: str) -> Path:
        return Path(self.folder, self.code or code_digest(), name + ".msgpack")


def default_folder(environment: Mapping[str, str]) -> Path:
    """Where the desktop's conventions want it (XDG)."""
    base = environment.get("XDG_CACHE_HOME", "")
    root = Path(base) if base.startswith("/") else Path.home() / ".cache"
    return root / "everturn" / "replay"


@cache
def code_digest() -> str:
    """Every line of code that a result could depend on; the version is one of them."""
    digest = blake2b(digest_size=_SIZE)
    house = Path(__file__).parents[2]
    for path in sorted(house.rglob("*.py")):
        name = path.relative_to(house).as_posix()
        if not name.startswith(tuple(f"{room}/" for room in _SHOWS)):
            digest.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _key(digest: str, name: str, scheme: ReplayPolicy) -> str:
    spelled = blake2b(msgspec.json.encode((name, scheme), order="deterministic"), digest_size=_SIZE)
    return f"{digest}-{spelled.hexdigest()}"
