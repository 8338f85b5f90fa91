"""Memory files in a session: a section of the system prompt, and a folder's files when it is first used.

`nested.py` decides which files to attach, each once. A compaction removes attached files from the view, so
they are attached again when their folder is used again (CP-19).
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Event as Stop
from threading import Thread
from typing import Any, Final

from everturn.decide.options import MemorySettings
from everturn.history.blocks import text_of
from everturn.session.memory_files.confined import ReadPermission, allow_all
from everturn.session.memory_files.discovery import MemoryFiles, find_memory
from everturn.session.memory_files.nested import NestedMemory
from everturn.session.memory_files.watch import notify_changes, watch
from everturn.session.tools import Tool, ToolContent
from everturn.view.fragments.memory import memory_file, memory_section
from everturn.view.fragments.reminder import reminder
from everturn.view.system_prompt import SystemPromptSections
from everturn.wire.json_values import as_mapping

# Input fields in which file tools name the file.
PATH_FIELDS: Final = ("file_path", "path", "notebook_path", "filename")


class SessionMemory:
    """The memory files of one session. `may_read` is called for every path (NM-3)."""

    def __init__(
        self, settings: MemorySettings, folder: Path, home: Path, may_read: ReadPermission = allow_all
    ) -> None:
        self._folder, self._home, self._may_read = folder, home, may_read
        self.found = self._find()
        known = (file.path for file in self.found.files)
        self.nested = NestedMemory(folder, home, may_read=may_read, known=known) if settings.nested else None
        self._stop = Stop()
        if settings.watch and self.nested is not None:
            batches = watch(folder, self._stop)
            Thread(target=notify_changes, args=(self.nested, batches), daemon=True).start()

    def add_to(self, system: str | SystemPromptSections) -> SystemPromptSections:
        """The system prompt with the memory files as a dynamic section (NM-1)."""
        if isinstance(system, SystemPromptSections):
            sections = system
        else:
            sections, own = SystemPromptSections(), system
            sections.static("prompt", lambda: own)
        sections.dynamic("memory", self._section)
        return sections

    def attach_to(self, tool: Tool) -> Tool:
        return attach_memory(tool, self.nested) if self.nested is not None else tool

    def forget(self) -> None:
        if self.nested is not None:
            self.nested.forget()

    def close(self) -> None:
        self._stop.set()

    def _find(self) -> MemoryFiles:
        return find_memory(self._folder, self._home, may_read=self._may_read)

    def _section(self) -> str:
        self.found = self._find()
        return memory_section((file.path, file.kind, file.text) for file in self.found.files)


def open_memory(
    settings: MemorySettings, folder: str | os.PathLike[str], may_read: ReadPermission
) -> SessionMemory | None:
    return SessionMemory(settings, Path(folder), Path.home(), may_read) if settings.enabled else None


def attach_memory(tool: Tool, memory: NestedMemory) -> Tool:
    """A copy of the tool that appends the memory files of the folder it used to its result."""
    run = tool.run
    if run is None or not _takes_path(tool):
        return tool
    return Tool(tool.definition, _attaching(run, memory))


def _attaching(
    run: Callable[[Mapping[str, Any]], ToolContent], memory: NestedMemory
) -> Callable[[Mapping[str, Any]], ToolContent]:
    def attaching(fields: Mapping[str, Any]) -> ToolContent:
        answer = run(fields)
        path = next((str(fields[name]) for name in PATH_FIELDS if fields.get(name)), "")
        if not path:
            return answer
        # The call did not raise, so the path is assumed to exist.
        memory.was_read(path)
        memory.triggered(path)
        files = memory.take().files
        return _append_texts(answer, [memory_file(each.path, each.kind, each.text) for each in files])

    return attaching


def _takes_path(tool: Tool) -> bool:
    schema = as_mapping(tool.definition.get("input_schema")) or {}
    properties = as_mapping(schema.get("properties")) or {}
    return any(name in properties for name in PATH_FIELDS)


def _append_texts(answer: ToolContent, texts: list[str]) -> ToolContent:
    if not texts:
        return answer
    text = text_of(reminder("\n\n".join(texts)))
    if isinstance(answer, str):
        return f"{answer}\n\n{text}"
    return [*answer, {"type": "text", "text": text}]
