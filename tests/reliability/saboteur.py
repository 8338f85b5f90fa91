"""What a process does to the disk, counted and stopped on order. For a forked child: nothing is put back.

Every call that changes a file passes here: `os.open` that creates, `os.write`, `os.fsync`, `os.replace`,
`os.unlink`, `os.mkdir`, and the writes of Python's own files. At the chosen one the process is killed, or the
call fails as a disk fails, once or for ever.
"""

import builtins
import errno
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

# before: the call never happens. inside: a write ends after `share` of its bytes. after: it happens whole.
When = Literal["before", "inside", "after"]
Ending = Literal["kill", "ENOSPC", "EIO", "EINTR", "EROFS", "short"]
ENDINGS: tuple[Ending, ...] = ("ENOSPC", "EIO", "EINTR", "EROFS", "short")

WRITE = "write"
CREATES = os.O_CREAT | os.O_WRONLY | os.O_RDWR


@dataclass(frozen=True)
class Point:
    """Where and how: at call number `at` (from 1; 0 for nowhere)."""

    at: int = 0
    when: When = "before"
    share: float = 0.5
    ending: Ending = "kill"
    for_ever: bool = False


@dataclass
class Saboteur:
    """Install once, in a child. `calls` names what was called so far."""

    point: Point = Point()
    calls: list[str] = field(default_factory=list)

    def install(self) -> None:
        os.open = self._around("open", os.open, counts=lambda path, flags, *_: bool(flags & CREATES))  # type: ignore[assignment]
        os.write = self._writing(os.write)
        for name in ("fsync", "replace", "unlink", "mkdir"):
            setattr(os, name, self._around(name, getattr(os, name)))
        opened = builtins.open
        builtins.open = lambda file, *more, **how: self._file(opened(file, *more, **how))  # type: ignore[assignment]

    # ── the calls ────────────────────────────────────────────────────────────────────────────────

    def _around(self, name: str, act: Callable[..., Any], counts: Any = None) -> Callable[..., Any]:
        def called(*given: Any, **more: Any) -> Any:
            if counts is not None and not counts(*given):
                return act(*given, **more)
            return self._at(name, lambda: act(*given, **more), lambda _: None)

        return called

    def _writing(self, act: Callable[[int, bytes], int]) -> Callable[[int, bytes], int]:
        def write(fd: int, data: bytes) -> int:
            return self._at(
                WRITE, lambda: act(fd, data), lambda share: act(fd, data[: int(len(data) * share)])
            )

        return write

    def _file(self, file: Any) -> Any:
        if "r" in file.mode and "+" not in file.mode:
            return file
        act = file.write

        def write(data: Any) -> Any:
            def part(share: float) -> None:
                act(data[: int(len(data) * share)])
                file.flush()

            return self._at(f"file {WRITE}", lambda: act(data), part)

        return _Wrapped(file, write)

    def _at(self, name: str, whole: Callable[[], Any], part: Callable[[float], Any]) -> Any:
        self.calls.append(name)
        here, point = len(self.calls), self.point
        if not point.at or here < point.at or (here > point.at and not point.for_ever):
            return whole()
        if point.ending == "short" and name == WRITE:
            return part(point.share)
        if point.when == "after" and here == point.at:
            whole()
        elif point.when == "inside":
            part(point.share)
        return self._end()

    def _end(self) -> None:
        if self.point.ending == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        # Only the system call itself can be short: Python's own files write the rest.
        number = errno.ENOSPC if self.point.ending == "short" else getattr(errno, self.point.ending)
        raise OSError(number, os.strerror(number))


class _Wrapped:
    """A file whose writes pass through us; everything else is its own."""

    def __init__(self, file: Any, write: Callable[[Any], Any]) -> None:
        self._file, self.write = file, write

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> "_Wrapped":
        return self

    def __exit__(self, *how: Any) -> Any:
        return self._file.__exit__(*how)

    def __iter__(self) -> Any:
        return iter(self._file)
