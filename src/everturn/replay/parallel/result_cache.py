"""Replay results on disk, so that no session is replayed twice under the same policy by the same code.

The key of a result covers everything it depends on: the bytes and name of the session (a file can hold many),
the whole policy, the version, and the code that computes it. So results of old code are never used for new
code, and you can delete the folder at any time. Files are written atomically.
"""

from collections.abc import Mapping
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from everturn.errors import StoreError
from everturn.replay.policies import ReplayPolicy
from everturn.replay.runs import ReplayRun
from everturn.safe_files import MAX_SESSION_BYTES, make_folder, read_file, replace_file

ValueT = TypeVar("ValueT")

# Packages that show results but do not compute them.
_DISPLAY_ONLY: Final = (
    "cli",
    "dashboard",
    "web_dashboard",
    "gateway",
    "adapters",
    "replay/page",
    "replay/parallel",
)
_SIZE: Final = 12


class ResultCache(msgspec.Struct, frozen=True):
    """A folder of results. `code` is the digest of the code that computed them; empty for this process."""

    folder: str
    code: str = ""

    def for_workers(self) -> "ResultCache":
        """Workers use the digest of the process that started them, because files on disk may change
        meanwhile.
        """
        return ResultCache(self.folder, self.code or code_digest())

    def run(self, digest: str, name: str, policy: ReplayPolicy) -> ReplayRun | None:
        return self.get(_key(digest, name, policy), ReplayRun)

    def save_run(self, digest: str, name: str, policy: ReplayPolicy, run: ReplayRun) -> None:
        self.put(_key(digest, name, policy), run)

    def get(self, name: str, kind: type[ValueT]) -> ValueT | None:
        """An unreadable result counts as absent: it is computed again and overwritten."""
        try:
            return msgspec.msgpack.decode(read_file(self._path(name), max_bytes=MAX_SESSION_BYTES), type=kind)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return None

    def put(self, name: str, value: object) -> None:
        path = self._path(name)
        try:
            make_folder(path.parent)
            replace_file(path, msgspec.msgpack.encode(value))
        except OSError as problem:
            why = f"Cannot write results to {self.folder}: {problem.strerror}."
            raise StoreError(f"{why} Choose another folder with --cache.") from None

    def _path(self, name: str) -> Path:
        return Path(self.folder, self.code or code_digest(), name + ".msgpack")


def default_folder(environment: Mapping[str, str]) -> Path:
    """The cache folder by the XDG convention."""
    base = environment.get("XDG_CACHE_HOME", "")
    root = Path(base) if base.startswith("/") else Path.home() / ".cache"
    return root / "everturn" / "replay"


@cache
def code_digest() -> str:
    """A digest of all code that a result could depend on, including the version."""
    digest = blake2b(digest_size=_SIZE)
    package = Path(__file__).parents[2]
    for path in sorted(package.rglob("*.py")):
        name = path.relative_to(package).as_posix()
        if not name.startswith(tuple(f"{folder}/" for folder in _DISPLAY_ONLY)):
            digest.update(name.encode() + b"\0" + read_file(path) + b"\0")
    return digest.hexdigest()


def _spell_secret(value: object) -> str:
    """A key does not change what a replay gives, and must not stand in a file name."""
    return ""


def _key(digest: str, name: str, policy: ReplayPolicy) -> str:
    spelled = blake2b(
        msgspec.json.encode((name, policy), order="deterministic", enc_hook=_spell_secret), digest_size=_SIZE
    )
    return f"{digest}-{spelled.hexdigest()}"
