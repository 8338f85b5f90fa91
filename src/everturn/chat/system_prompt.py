"""The system prompt of the chat, in sections, and the note about an interrupted answer.

Static sections come first and are identical for all users, so that the provider's cache can share them.
Memory files are read when the session is opened, and again after a compaction (CP-19).
"""

import platform
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Final

from everturn.session.memory_files.discovery import MemoryFiles, find_memory
from everturn.view.fragments.cleared import TEXT as CLEARED
from everturn.view.fragments.escaping import SUMMARY_TAG
from everturn.view.fragments.memory import memory_section
from everturn.view.fragments.offloaded import offloaded_words
from everturn.view.fragments.recalled import NAME as RECALL
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
LONG_CONVERSATION_SECTION: Final = f"""\
This conversation has no length limit. To make space, older parts are removed from your context; the full
history stays in the transcript. This is what it looks like:
- An old tool result was cleared: its content is "{CLEARED}".
- A large result was moved to a file: it starts with "{offloaded_words(60_000, "PATH", "").strip()}"
- Older messages were summarized: the summary is between <{SUMMARY_TAG}> and </{SUMMARY_TAG}>.
None of this is an error, and no work was lost. To get content back, read the file again with Read, run the
command again, or search the full history with the {RECALL} tool. Never guess content that you no longer see,
and read a file again before you edit it. Instructions in memory files and pinned texts always apply."""

# The end of an interrupted answer matters most: it shows what the model was doing.
MAX_UNFINISHED_CHARACTERS: Final = 4_000


def build_system_prompt(
    folder: Path,
    home: Path,
    today: Callable[[], date],
    loaded: Callable[[MemoryFiles], None] = lambda _: None,
) -> SystemPromptSections:
    """`loaded` is called with the memory files whenever they are read."""

    def memory() -> str:
        found = find_memory_files(folder, home)
        loaded(found)
        return format_memory(found)

    sections = SystemPromptSections()
    sections.static("work", lambda: WORK_SECTION)
    sections.static("long", lambda: LONG_CONVERSATION_SECTION)
    sections.dynamic("place", lambda: describe_environment(folder, today()))
    sections.dynamic("memory", memory)
    return sections


def describe_environment(folder: Path, today: date) -> str:
    return f"The workspace is {folder}. The system is {platform.system()}. Today is {today.isoformat()}."


def find_memory_files(folder: Path, home: Path) -> MemoryFiles:
    return find_memory(folder, home)


def format_memory(memory: MemoryFiles) -> str:
    return memory_section((file.path, file.kind, file.text) for file in memory.files)


def describe_interrupted_answer(said: str) -> str:
    """Told to the model before the next user message: where its answer was cut off."""
    if not said.strip():
        return "[The user stopped your last answer before it began.]"
    end = said.strip()[-MAX_UNFINISHED_CHARACTERS:]
    dots = "[…] " if len(end) < len(said.strip()) else ""
    return f"[The user stopped your last answer. What it had said so far:]\n{dots}{end}"
