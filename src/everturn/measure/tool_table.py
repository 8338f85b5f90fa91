"""What tools do: one row for each group of tools with different names and equal input fields (MC-2).

All code that depends on a tool asks this table: what may be cleared, which file a call reads, what the
summary without a model says about it, what is restored after a compaction. Users add their own tools and
override rows; the rows below stay (`ToolTable.extended`).

Names: Claude Code first, then the API's own tools, Codex, Gemini CLI, pi, SWE-agent and OpenHands, as in
their recorded sessions or, if those lack a tool, in their public sources.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Final, Literal

import msgspec

from everturn.history.blocks import Block
from everturn.measure.printed_file import printed_file

ToolPurpose = Literal[
    "reads", "edits", "writes", "searches", "lists", "runs", "searches_web", "fetches",
    "replaces_tasks", "adds_task", "changes_task", "tracks_tasks",
    "enters_plan_mode", "presents_plan", "asks",
    "runs_agent", "collects_agent", "stops_agent", "messages_agent", "uses_skill", "searches_tools", "other",
]  # fmt: skip

PATH_FIELDS: Final = ("file_path", "path", "notebook_path", "absolute_path")
COMMAND_FIELDS: Final = ("command", "cmd")
PATCH_FIELDS: Final = ("input", "patch", "command")
# Number of names whose row is cached. Agents have some dozens of tools.
_MAX_REMEMBERED: Final = 4_096


class EditFields(msgspec.Struct, frozen=True):
    """The input fields of a tool that replaces text; `all` if it can replace every occurrence."""

    old: str
    new: str
    all: str = ""


class ToolRow(msgspec.Struct, frozen=True, kw_only=True):
    """What the tools of these names (or patterns) do, and the names of their input fields."""

    names: tuple[str, ...] = ()
    does: ToolPurpose = "other"
    # Input fields in the order in which they are tried: the path; the command line or the patch.
    path: tuple[str, ...] = PATH_FIELDS
    command: tuple[str, ...] = COMMAND_FIELDS
    # The result may be cleared, because another call gives it again.
    is_reproducible: bool = False
    # The input is the large part, not the result.
    has_large_input: bool = False
    # Tools with several commands: what they do by the value of `command`, if it is not `does`.
    by_command: tuple[tuple[str, ToolPurpose], ...] = ()
    # A command that only prints one file counts as a read of that file.
    prints_files: bool = False
    replaces: EditFields | None = None

    def purpose_of(self, command: str) -> ToolPurpose:
        return dict(self.by_command).get(command, self.does)

    @property
    def may_read(self) -> bool:
        return (
            self.does == "reads" or self.prints_files or any(does == "reads" for _, does in self.by_command)
        )


class ToolEntry(msgspec.Struct, frozen=True, kw_only=True):
    """What a user says about tools of these names or patterns. Fields that are None stay as in the table."""

    names: tuple[str, ...]
    does: ToolPurpose | None = None
    path: tuple[str, ...] | None = None
    command: tuple[str, ...] | None = None
    is_reproducible: bool | None = None
    has_large_input: bool | None = None


UNKNOWN_ROW: Final = ToolRow()

_EDITOR: Final[tuple[tuple[str, ToolPurpose], ...]] = (("view", "reads"), ("create", "writes"))
_PATH_FIRST: Final = ("path", "file_path", "notebook_path", "absolute_path")

ROWS: Final[tuple[ToolRow, ...]] = (
    ToolRow(
        names=(
            "Read", "NotebookRead", "read", "read_file", "read_many_files", "view", "view_file", "open_file",
        ),
        does="reads", is_reproducible=True,
    ),
    ToolRow(
        names=("Bash", "bash", "run_shell_command", "execute_bash"),
        does="runs", is_reproducible=True,
    ),
    # Codex has no read tool: it reads files with commands such as `sed -n '1,200p' a.py`.
    ToolRow(
        names=("shell", "local_shell", "exec_command", "shell_command"),
        does="runs", is_reproducible=True, prints_files=True,
    ),
    ToolRow(
        names=("Grep", "grep", "grep_search", "search_file_content", "rg", "grep_files"),
        does="searches", is_reproducible=True,
    ),
    ToolRow(
        names=("Glob", "LS", "glob", "find", "ls", "list_directory", "list_files", "list_dir"),
        does="lists", is_reproducible=True,
    ),
    ToolRow(
        names=("WebSearch", "web_search", "google_web_search"),
        does="searches_web", is_reproducible=True,
    ),
    ToolRow(names=("WebFetch", "web_fetch"), does="fetches", is_reproducible=True),
    ToolRow(
        names=("Edit",),
        does="edits", command=PATCH_FIELDS, is_reproducible=True, has_large_input=True,
        replaces=EditFields("old_string", "new_string", "replace_all"),
    ),
    ToolRow(
        names=("replace",),
        does="edits", command=PATCH_FIELDS, is_reproducible=True, has_large_input=True,
        replaces=EditFields("old_string", "new_string"),
    ),
    ToolRow(
        names=("edit_file",),
        does="edits", path=_PATH_FIRST, command=PATCH_FIELDS, is_reproducible=True, has_large_input=True,
        replaces=EditFields("old_string", "new_string", "replace_all"),
    ),
    ToolRow(
        names=("edit",),
        does="edits", path=_PATH_FIRST, command=PATCH_FIELDS, is_reproducible=True, has_large_input=True,
        replaces=EditFields("oldText", "newText"),
    ),
    ToolRow(
        names=("str_replace_based_edit_tool", "str_replace_editor"),
        does="edits", path=_PATH_FIRST, is_reproducible=True, has_large_input=True,
        by_command=_EDITOR, replaces=EditFields("old_str", "new_str"),
    ),
    ToolRow(
        names=("MultiEdit", "apply_patch"),
        does="edits", command=PATCH_FIELDS, is_reproducible=True, has_large_input=True,
    ),
    ToolRow(
        names=("Write", "write", "write_file", "create_file"),
        does="writes", is_reproducible=True, has_large_input=True,
    ),
    ToolRow(
        names=("NotebookEdit", "notebook_edit"),
        does="edits", command=PATCH_FIELDS, has_large_input=True,
    ),
    ToolRow(names=("AskUserQuestion", "ask_user*", "request_user_input"), does="asks"),
    ToolRow(names=("EnterPlanMode",), does="enters_plan_mode"),
    ToolRow(names=("ExitPlanMode",), does="presents_plan"),
    ToolRow(names=("TodoWrite", "todo_write", "update_plan", "write_todos"), does="replaces_tasks"),
    ToolRow(names=("TaskCreate",), does="adds_task"),
    ToolRow(names=("TaskUpdate",), does="changes_task"),
    ToolRow(names=("Task", "Agent", "spawn_agent"), does="runs_agent"),
    ToolRow(names=("TaskOutput", "AgentOutputTool"), does="collects_agent"),
    ToolRow(names=("TaskStop", "KillShell"), does="stops_agent"),
    ToolRow(names=("Task*", "TodoRead", "todo_*"), does="tracks_tasks"),
    ToolRow(names=("SendMessage", "send_message"), does="messages_agent"),
    ToolRow(names=("Skill",), does="uses_skill"),
    ToolRow(names=("ToolSearch", "tool_search*"), does="searches_tools"),
)  # fmt: skip


def matches(tool: str, patterns: Iterable[str]) -> bool:
    """Whether a name is one of these, or matches one of them as a pattern."""
    return any(tool == pattern or fnmatchcase(tool, pattern) for pattern in patterns)


@dataclass(frozen=True)
class ToolTable:
    """Rows, and users' entries. An exact name wins over a pattern, a later entry over an earlier one."""

    rows: tuple[ToolRow, ...] = ROWS
    entries: tuple[ToolEntry, ...] = ()
    _found: dict[str, ToolRow] = field(
        init=False, compare=False, repr=False, default_factory=dict[str, ToolRow]
    )

    def extended(self, entries: Iterable[ToolEntry]) -> "ToolTable":
        """A table that also has these entries; the rows stay. Entries without a name are ignored."""
        named = tuple(entry for entry in entries if entry.names)
        return ToolTable(self.rows, (*self.entries, *named)) if named else self

    def find(self, tool: str) -> ToolRow:
        """The row of a tool; `UNKNOWN_ROW` if no row describes it: its result is kept."""
        found = self._found.get(tool)
        if found is None:
            if len(self._found) >= _MAX_REMEMBERED:
                self._found.clear()
            found = self._found[tool] = self._look_up(tool)
        return found

    def _look_up(self, tool: str) -> ToolRow:
        exact = (row for row in self.rows if tool in row.names)
        by_pattern = (row for row in self.rows if matches(tool, row.names))
        row = next(exact, None) or next(by_pattern, UNKNOWN_ROW)
        for entry in self.entries:
            if matches(tool, entry.names):
                row = _with_entry(row, entry)
        return row


def _with_entry(row: ToolRow, entry: ToolEntry) -> ToolRow:
    said = {name: getattr(entry, name) for name in entry.__struct_fields__ if name != "names"}
    changes: dict[str, Any] = {name: value for name, value in said.items() if value is not None}
    return msgspec.structs.replace(row, **changes)


DEFAULT_TOOL_TABLE: Final = ToolTable()


class _Call(msgspec.Struct):
    input: dict[str, msgspec.Raw]


_read_call = msgspec.json.Decoder(_Call).decode
_read_value = msgspec.json.Decoder().decode


def path_read(block: Block, tools: ToolTable = DEFAULT_TOOL_TABLE) -> str:
    """The file that a call reads; "" if it reads none, or names it in a field that is not in the table."""
    row = tools.find(block.tool)
    if not row.may_read:
        return ""
    try:
        given = _read_call(block.raw).input
    except msgspec.DecodeError:
        return ""
    if row.prints_files:
        return next((printed_file(_value(given[name])) for name in row.command if name in given), "")
    command = _value(given["command"]) if row.by_command and "command" in given else ""
    if row.by_command and row.purpose_of(command if isinstance(command, str) else "") != "reads":
        return ""
    paths = (_value(given[name]) for name in row.path if name in given)
    return next((path for path in paths if isinstance(path, str) and path), "")


def _value(raw: msgspec.Raw) -> object:
    try:
        return _read_value(raw)
    except (msgspec.DecodeError, RecursionError):
        return None
