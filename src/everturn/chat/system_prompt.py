"""What the chat says to the model on its own account: the system prompt in sections, and a cut-off answer.

Static sections come first and are the same for everybody, so that the provider's cache can share them;
memory files are read when the session is opened, and again after a compaction (CP-19).
"""

import platform
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Final

from everturn.session.memory_files.discovery import MemoryFiles, find_memory
from everturn.view.fragments.memory import memory_section
from everturn.view.system_prompt import SystemPromptSections

WORK_SECTION: Final = """\
You are a coding agent in a terminal. A person works with you in one folder, the workspace.

Do what was asked, no more and no less. Look before you change: read a file before you edit it, search before
you assume. Make small changes that fit the code around them. When there is a way to check your work (tests, a
build, a run), use it, and say honestly what it showed. Never claim what you have not seen.

For a task of several steps keep a list with TodoWrite. For questions that take many searches use Task. Ask
only when you cannot find out yourself and a wrong guess would cost something.

Answer briefly and in plain text: the terminal shows no markup. Lead with the result.
Name places as path:line."""
LONG_CONVERSATION_SECTION: Final = """\
This conversation has no end: when it grows too long, older parts are summarized. What you no longer see can
be found with the recall tool, word for word. Instructions in memory files and pinned words always hold."""

# Of an answer that was stopped, its end is worth most: that is where the work stood.
MAX_UNFINISHED_CHARACTERS: Final = 4_000


def build_system_prompt(folder: Path, home: Path, today: Callable[[], date]) -> SystemPromptSections:
    sections = SystemPromptSections()
    sections.static("work", lambda: WORK_SECTION)
    sections.static("long", lambda: LONG_CONVERSATION_SECTION)
    sections.dynamic("place", lambda: describe_environment(folder, today()))
    sections.dynamic("memory", lambda: format_memory(find_memory_files(folder, home)))
    return sections


def describe_environment(folder: Path, today: date) -> str:
    return f"The workspace is {folder}. The system is {platform.system()}. Today is {today.isoformat()}."


def find_memory_files(folder: Path, home: Path) -> MemoryFiles:
    return find_memory(folder, home)


def format_memory(memory: MemoryFiles) -> str:
    return memory_section((file.path, file.kind, file.text) for file in memory.files)


def describe_interrupted_answer(said: str) -> str:
    """For the model, in front of what the person says next: where its answer was cut off."""
    if not said.strip():
        return "[The user stopped your last answer before it began.]"
    end = said.strip()[-MAX_UNFINISHED_CHARACTERS:]
    dots = "[…] " if len(end) < len(said.strip()) else ""
    return f"[The user stopped your last answer. What it had said so far:]\n{dots}{end}"
