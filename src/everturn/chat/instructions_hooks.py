"""Tells InstructionsLoaded hooks which memory files the model gets: at the start, after a compaction, and
those of sub-folders when they are attached."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal

from everturn.chat.subagent import HookRunner
from everturn.chat.system_prompt import find_memory_files
from everturn.session.memory_files.discovery import MemoryFile, MemoryFiles
from everturn.session.memory_files.nested import NestedMemory


class InstructionsHooks:
    """`run_hooks` runs the hooks of the session that is open."""

    def __init__(self, run_hooks: HookRunner) -> None:
        self._run_hooks = run_hooks
        self._loaded: list[MemoryFile] = []

    def note_loaded(self, memory: MemoryFiles) -> None:
        """Called while a session is opened or compacted; hooks run after that, by `tell_loaded`."""
        self._loaded = list(memory.files)

    def tell_loaded(self, reason: Literal["session_start", "compact"]) -> None:
        loaded, self._loaded = self._loaded, []
        for file in loaded:
            kind = file.kind.capitalize()
            self._run_hooks("InstructionsLoaded", file_path=file.path, memory_type=kind, load_reason=reason)

    def watch_nested(self, folder: Path, home: Path) -> NestedMemory:
        """The memory files of sub-folders. Hooks are told of each one when it is attached."""
        known = (file.path for file in find_memory_files(folder, home).files)
        return _ReportedMemory(folder, home, self._tell_attached, known)

    def _tell_attached(self, file: MemoryFile) -> None:
        self._run_hooks(
            "InstructionsLoaded",
            file_path=file.path,
            memory_type="Project",
            load_reason="nested_traversal",
        )


class _ReportedMemory(NestedMemory):
    """Memory files of sub-folders; `attached` is called with each one that is attached."""

    def __init__(
        self, folder: Path, home: Path, attached: Callable[[MemoryFile], None], known: Iterable[str]
    ) -> None:
        super().__init__(folder, home, known=known)
        self._attached = attached

    def take(self) -> MemoryFiles:
        found = super().take()
        for file in found.files:
            self._attached(file)
        return found
