"""Memory files as text: in the system prompt, or attached when their folder is first used (NM-1, NM-2).

They are instructions from people, not from the program: each is shown with its origin,
and none can close the tags around it.
"""

from collections.abc import Iterable, Mapping
from typing import Final

_SAID: Final[Mapping[str, str]] = {
    "user": "the user's own instructions for all projects",
    "project": "instructions of this project",
    "local": "instructions for this project, from a file that is usually not shared",
    "nested": "instructions for the folder it lies in",
}


def memory_file(path: str, kind: str, text: str) -> str:
    said = _SAID.get(kind, _SAID["project"])
    return f'<memory path="{_quoted(path)}">\n({said})\n{_harmless(text.strip())}\n</memory>'


def memory_section(files: Iterable[tuple[str, str, str]]) -> str:
    """The dynamic section of the system prompt: path, kind and text of each file, in order."""
    shown = [memory_file(path, kind, text) for path, kind, text in files if text.strip()]
    if not shown:
        return ""
    return "\n\n".join(
        ["These files were written by people who work here. Later ones refine earlier ones.", *shown]
    )


def _harmless(text: str) -> str:
    return text.replace("</memory", "<\\/memory").replace("</system-reminder", "<\\/system-reminder")


def _quoted(path: str) -> str:
    return path.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace("\n", " ")
