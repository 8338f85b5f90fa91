"""Which tools' results may be cleared: those that can be had again by calling again (MC-2).

A tool is known by name or pattern. `keep` wins over the other lists, and a tool that nobody has sorted is
kept: what we do not know may be impossible to reproduce. Which of the results go, and when: `micro/`.
"""

from fnmatch import fnmatchcase
from typing import Final, Literal

import msgspec

ToolKind = Literal["reproducible", "write_like", "keep"]


class ToolKinds(msgspec.Struct, frozen=True):
    """Names or patterns. Write-like tools carry the large part in their input; their results may go too."""

    reproducible: tuple[str, ...] = ()
    write_like: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()


def matches(tool: str, patterns: tuple[str, ...]) -> bool:
    return tool in patterns or any(fnmatchcase(tool, pattern) for pattern in patterns)


def kind_of(tool: str, kinds: ToolKinds) -> ToolKind:
    if matches(tool, kinds.keep):
        return "keep"
    if matches(tool, kinds.write_like):
        return "write_like"
    return "reproducible" if matches(tool, kinds.reproducible) else "keep"


# What a tool does, how it is sorted, and what agents call it: Claude Code's names first, then those of the
# API's own tools, Codex, Gemini CLI, pi and SWE-agent as their recorded sessions spell them.
TABLE: Final[tuple[tuple[str, ToolKind, tuple[str, ...]], ...]] = (
    (
        "reads a file",
        "reproducible",
        ("Read", "NotebookRead", "read", "read_file", "read_many_files", "view", "view_file", "open_file"),
    ),
    (
        "runs a command",
        "reproducible",
        ("Bash", "bash", "shell", "local_shell", "exec_command", "run_shell_command", "execute_bash"),
    ),
    ("searches texts", "reproducible", ("Grep", "grep", "grep_search", "search_file_content", "rg")),
    ("lists files", "reproducible", ("Glob", "LS", "glob", "find", "ls", "list_directory", "list_files")),
    ("searches the web", "reproducible", ("WebSearch", "web_search", "google_web_search")),
    ("fetches a page", "reproducible", ("WebFetch", "web_fetch")),
    (
        "edits a file",
        "write_like",
        (
            "Edit", "MultiEdit", "edit", "edit_file", "replace", "apply_patch", "str_replace_editor",
            "str_replace_based_edit_tool",
        ),
    ),
    ("writes a file", "write_like", ("Write", "write", "write_file", "create_file")),
    ("edits a notebook", "keep", ("NotebookEdit", "notebook_edit")),
    ("asks the user", "keep", ("AskUserQuestion", "ask_user*", "ExitPlanMode")),
    ("keeps track of tasks", "keep", ("Task*", "TodoWrite", "TodoRead", "todo_*", "update_plan")),
    ("speaks with agents", "keep", ("SendMessage", "Agent", "spawn_agent", "send_message")),
    ("searches for tools", "keep", ("ToolSearch", "tool_search*")),
)  # fmt: skip


def _names(kind: ToolKind) -> tuple[str, ...]:
    return tuple(name for _, sorted_as, names in TABLE if sorted_as == kind for name in names)


DEFAULT_TOOLS: Final = ToolKinds(_names("reproducible"), _names("write_like"), _names("keep"))

# For policies that imitate systems which make no difference between tools.
ALL_ALIKE: Final = ToolKinds(reproducible=("*",))
