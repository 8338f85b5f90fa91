"""The task list as its tools keep it: the last whole list, or tasks created and changed one by one."""

import re
from collections.abc import Mapping
from typing import Any, Final, cast

from everturn.decide.extractive.reading.calls import ToolInput
from everturn.decide.extractive.reading.facts import Status, TaskItem
from everturn.measure.tool_table import ToolPurpose

TASK_PURPOSES: Final[frozenset[ToolPurpose]] = frozenset({"replaces_tasks", "adds_task", "changes_task"})
# "Task #3 created successfully: ..." contains the id that later calls use.
_NUMBER: Final = re.compile(r"#(\w+)")
# A line of a printed list: "#2 [pending] Write the notes [blocked by #1]".
_LISTED: Final = re.compile(
    r"^#(\w{1,20})\.? \[(\w{1,20})\] (.{1,400}?)(?: \[blocked by [^\]\n]{1,80}\])?$", re.MULTILINE
)
# Claude Code, Codex, others, Gemini CLI.
_TEXT_FIELDS: Final = ("content", "step", "subject", "description")
_STATUSES: Final[Mapping[str, Status]] = {
    "completed": "completed",
    "done": "completed",
    "deleted": "completed",
    "cancelled": "completed",
    "in_progress": "in_progress",
}


class TaskList:
    """Tasks by id. A whole list replaces everything before it."""

    def __init__(self) -> None:
        self._tasks: dict[str, TaskItem] = {}
        self.is_known = False

    def note(self, does: ToolPurpose, call: str, given: ToolInput) -> None:
        self.is_known = True
        if does == "replaces_tasks":
            listed = given["todos"] if given.get("todos") is not None else given.get("plan")
            self._replace(cast(list[object], listed) if isinstance(listed, list) else [])
        elif does == "adds_task":
            name = given.get("subject") or given.get("description") or "(a task without a name)"
            self._tasks[call] = TaskItem(str(name))
        else:
            self._change(str(given.get("taskId") or ""), given)

    def number(self, call: str, result: str) -> None:
        """The result of creating a task: from now on it is known by its number."""
        if (found := _NUMBER.search(result)) and call in self._tasks:
            self._tasks = {found[1] if at == call else at: task for at, task in self._tasks.items()}

    def read_list(self, printed: str) -> None:
        """A list that a tool printed gives names and states to tasks that were created before."""
        for number, status, text in _LISTED.findall(printed):
            self.is_known = True
            self._tasks[number] = TaskItem(text.strip(), _status(status))

    def all(self) -> tuple[TaskItem, ...]:
        return tuple(self._tasks.values())

    def _replace(self, listed: list[object]) -> None:
        maps = [cast(dict[str, Any], each) for each in listed if isinstance(each, dict)]
        self._tasks = {
            f"list {at}": TaskItem(text, _status(each.get("status")))
            for at, each in enumerate(maps)
            if (text := next((str(each[name]) for name in _TEXT_FIELDS if each.get(name)), ""))
        }

    def _change(self, name: str, given: ToolInput) -> None:
        before = self._tasks.get(name, TaskItem(f"task #{name}"))
        status = _status(given["status"]) if given.get("status") is not None else before.status
        self._tasks[name] = TaskItem(str(given.get("subject") or before.text), status)


def _status(word: object) -> Status:
    return _STATUSES.get(str(word), "pending")
