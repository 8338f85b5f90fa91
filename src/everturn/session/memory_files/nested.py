"""Memory files of sub-directories: attached once, when a file there is read or changed (NM-2).

triggered(path)   records that a file was read, or that the watcher saw it change
take()            returns the files to attach now, clears the triggers, and marks the files as read
"""

from collections.abc import Iterable
from pathlib import Path

from everturn.session.memory_files.confined import ReadPermission, ReadScope, allow_all
from everturn.session.memory_files.discovery import MemoryFiles, MemoryLoader, default_roots, folders_between


class NestedMemory:
    """Keeps track of triggers and attached files. `known` are files that the system prompt already holds."""

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

    def triggered(self, path: str | Path) -> None:
        """Record that a file was read; its path is resolved first."""
        if real := self._real(path):
            self._triggers.setdefault(real)

    def was_read(self, path: str | Path) -> None:
        """Record that the model has read this file itself, so that it is not attached again."""
        self.read.add(str(self._real(path)))

    def changed(self, paths: Iterable[str | Path]) -> None:
        """Record changes that a watcher saw. A memory file that changed is attached again."""
        for path in paths:
            self.triggered(path)
            self.read.discard(str(self._real(path)))

    def take(self) -> MemoryFiles:
        loader = MemoryLoader(self._reach, self._home, self.read)
        # A watcher adds triggers from its own thread: those that come from now on are for the next call.
        taken, self._triggers = self._triggers, {}
        folders = {folder: None for file in taken for folder in folders_between(self._cwd, file)}
        for folder in folders:
            loader.load_folder(folder, "nested")
        self.read.update(file.path for file in loader.memory.files)
        return loader.memory

    def _real(self, path: str | Path) -> Path | None:
        try:
            return Path(self._cwd, path).resolve()
        except (OSError, RuntimeError, ValueError):
            # An invalid path: a NUL character, a name that is too long, or a loop of links.
            return None

    def forget(self) -> None:
        """After a compaction: attached files are no longer in view, so they can be attached again (CP-19)."""
        self._triggers.clear()
        self.read = set(self._always)
