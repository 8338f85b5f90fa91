"""Memory files of sub-directories: attached once, when a file there is read or changed (NM-2).

triggered(path)   a file was read, or the watcher saw it change
take()            what is to be attached now; the triggers are cleared, the files registered as read
"""

from collections.abc import Iterable
from pathlib import Path

from everturn.session.memory_files.confined import ReadPermission, ReadScope, allow_all
from everturn.session.memory_files.discovery import MemoryFiles, MemoryLoader, default_roots, folders_between


class NestedMemory:
    """What has been triggered and what has been attached. `known` are files that the model has seen."""

    def __init__(
        self,
        cwd: Path,
        home: Path,
        *,
        roots: tuple[Path, ...] = (),
        may_read: ReadPermission = allow_all,
        known: Iterable[str] = (),
    ) -> None:
        self._cwd = cwd.resolve()
        self._home = home
        self._reach = ReadScope(roots=roots or default_roots(self._cwd, home), may_read=may_read)
        self._triggers: dict[Path, None] = {}
        self._always = frozenset(known)
        self.read = set(self._always)

    @property
    def triggers(self) -> tuple[Path, ...]:
        return tuple(self._triggers)

    def triggered(self, path: str | Path) -> None:
        """A file was read. Where it really lies decides, not how it is spelled."""
        if real := self._real(path):
            self._triggers.setdefault(real)

    def was_read(self, path: str | Path) -> None:
        """The model has read this file itself: it is not attached again."""
        self.read.add(str(self._real(path)))

    def changed(self, paths: Iterable[str | Path]) -> None:
        """What a watcher saw. A memory file that changed is attached again."""
        for path in paths:
            self.triggered(path)
            self.read.discard(str(self._real(path)))

    def take(self) -> MemoryFiles:
        loader = MemoryLoader(self._reach, self._home, self.read)
        folders = {folder: None for file in self._triggers for folder in folders_between(self._cwd, file)}
        for folder in folders:
            loader.load_folder(folder, "nested")
        self._triggers.clear()
        self.read.update(file.path for file in loader.memory.files)
        return loader.memory

    def _real(self, path: str | Path) -> Path | None:
        try:
            return Path(self._cwd, path).resolve()
        except (OSError, RuntimeError, ValueError):
            # No path that a disk could have: a NUL in it, a name too long, links in a circle.
            return None

    def forget(self) -> None:
        """After a compaction what was attached is out of sight; it comes back when triggered (CP-19)."""
        self._triggers.clear()
        self.read = set(self._always)
