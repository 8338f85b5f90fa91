"""Tokens: who may use a gateway that others can reach, and which tenant each belongs to.

The file has SHA-256 digests, not tokens. A token has 256 random bits, so a fast digest is enough. Every entry
is compared, each in constant time, so that the time says nothing about which of them was close.
"""

import fcntl
import hashlib
import hmac
import os
import re
import stat
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

import msgspec

from everturn.errors import InputError, UsageError
from everturn.gateway.headers import TOKEN_PREFIX
from everturn.gateway.values import Mode, Tenant
from everturn.safe_files import FILE_MODE, AtomicFile, open_folder, read_file

# How often the file is looked at. Our choice.
REFRESH_SECONDS: Final = 1.0
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_TENANT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class TokenEntry(msgspec.Struct, frozen=True):
    tenant: str
    sha256: str
    mode: Mode | Literal[""] = ""


class _TokenFile(msgspec.Struct, frozen=True):
    tokens: tuple[TokenEntry, ...] = ()


class Tokens:
    """The tokens that are accepted. `refresh` returns them as they are now, or None if they have not changed;
    whatever it raises means that nobody knows."""

    def __init__(
        self,
        entries: tuple[TokenEntry, ...],
        refresh: Callable[[], tuple[TokenEntry, ...] | None] = lambda: None,
    ) -> None:
        self._entries = entries
        self._refresh = refresh
        self._refreshed = time.monotonic()

    def find_tenant(self, token: str) -> Tenant | None:
        """Raises `InputError` for an unknown token if the file of tokens cannot be read now."""
        if time.monotonic() - self._refreshed < REFRESH_SECONDS:
            return self._find(token)
        try:
            if (now := self._refresh()) is not None:
                self._entries = now
            self._refreshed = time.monotonic()
        except InputError:
            if (found := self._find(token)) is None:
                raise
            return found
        return self._find(token)

    def _find(self, token: str) -> Tenant | None:
        given = digest_token(token)
        found: Tenant | None = None
        for entry in self._entries:
            if hmac.compare_digest(given, entry.sha256):
                found = Tenant(entry.tenant, entry.mode)
        return found


def digest_token(token: str) -> str:
    return hashlib.sha256(token.encode(errors="surrogateescape")).hexdigest()


def load_tokens(path: Path) -> Tokens:
    """The tokens of a file, which is read again when it changes: a new token needs no restart."""
    seen = _read_version(path)

    def refresh() -> tuple[TokenEntry, ...] | None:
        nonlocal seen
        now = _read_version(path)
        if now == seen:
            return None
        # The last token may have been revoked: then nobody is let in.
        entries, seen = _read(path), now
        return entries

    return Tokens(_read_some(path), refresh)


def _read_version(path: Path) -> tuple[int, int, int]:
    try:
        found = path.stat()
    except FileNotFoundError:
        raise InputError(
            f"Cannot read the tokens in {path}: there is no such file. Make it with a first token: "
            f"everturn gateway token TENANT --tokens {path}"
        ) from None
    except OSError as problem:
        raise InputError(f"Cannot read the tokens in {path}: {problem.strerror}.") from None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _read_some(path: Path) -> tuple[TokenEntry, ...]:
    entries = _read(path)
    if not entries:
        raise InputError(f"{path} has no token. Add one: everturn gateway token TENANT --tokens {path}")
    return entries


def add_token(path: Path, tenant: str, mode: Mode | Literal[""], random: str) -> str:
    """Add a token for a tenant to the file and return it. `random` are 256 random bits as text."""
    if not _TENANT.fullmatch(tenant):
        raise UsageError(f"{tenant!r} is not a name of a tenant; use letters, digits, '.', '_' and '-'.")
    token = TOKEN_PREFIX + random
    try:
        with _locked(path.parent):
            entries = _read(path) if path.exists() else ()
            file = _TokenFile((*entries, TokenEntry(tenant, digest_token(token), mode)))
            _replace(path, msgspec.json.format(msgspec.json.encode(file)) + b"\n")
    except OSError as problem:
        raise InputError(f"Cannot write the tokens to {path}: {problem.strerror}.") from None
    return token


@contextmanager
def _locked(folder: Path) -> Generator[None, None, None]:
    """One command at a time: two would each write what they have read, and a token that was printed would be
    missing. The folder is locked, because the file is replaced."""
    fd = open_folder(folder.resolve())
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _replace(path: Path, data: bytes) -> None:
    """Replace the file atomically. Its owner, group and mode stay: an administrator adds tokens, and a
    gateway that runs as another user has to read them."""
    before = path.stat() if path.exists() else None
    mode = stat.S_IMODE(before.st_mode) if before else FILE_MODE
    with AtomicFile(path, mode=mode, may_replace_links=False) as file:
        if before and os.geteuid() == 0:
            os.fchown(file.fileno(), before.st_uid, before.st_gid)
        file.write(data)


def _read(path: Path) -> tuple[TokenEntry, ...]:
    try:
        entries = msgspec.json.decode(read_file(path), type=_TokenFile).tokens
    except OSError as problem:
        raise InputError(f"Cannot read the tokens in {path}: {problem.strerror}.") from None
    except msgspec.MsgspecError as problem:
        raise InputError(f"{path} is not a file of tokens: {problem}.") from None
    for entry in entries:
        if not _TENANT.fullmatch(entry.tenant):
            raise InputError(f"{path} names the tenant {entry.tenant!r}; use letters, digits, '.', '_', '-'.")
        if not _DIGEST.fullmatch(entry.sha256):
            # Not repeated: it may be the token itself.
            raise InputError(
                f"{path} has a sha256 of the tenant {entry.tenant} that is not 64 hexadecimal digits in "
                "lower case. Remove that entry, then make a token: "
                f"everturn gateway token {entry.tenant} --tokens {path}"
            )
    return entries
