"""The list of tasks as its tools keep it: the last whole list, or tasks made and changed one by one."""

import re
from collections.abc import Mapping
from typing import Any, Final, cast

from everturn.decide.extractive.reading.calls import ToolInputFields
from everturn.decide.extractive.reading.facts import Status, TaskItem

WHOLE_LIST: Final = frozenset({"TodoWrite", "update_plan", "todo_write"})
MADE: Final = "TaskCreate"
CHANGED: Final = "TaskUpdate"
TOOLS: Final = WHOLE_LIST | {MADE, CHANGED}
# "Task #3 created successfully: ..." names the id by which later calls speak of it.
_NUMBER: Final = re.compile(r"#(\w+)")
_STATUSES: Final[Mapping[str, Status]] = {
    "completed": "completed",
    "done": "completed",
    "deleted": "completed",
    "cancelled": "completed",
    "in_progress": "in_progress",
}


class TaskBook:
    """Tasks by id. A whole list replaces everything before it."""

    def __init__(self) -> None:
        self._tasks: dict[str, TaskItem] = {}
        self._made = 0
        self.is_known = False

    def note(self, tool: str, call: str, given: ToolInputFields) -> None:
        self.is_known = True
        if tool in WHOLE_LIST:
            listed = given.todos if given.todos is not None else given.plan
            self._replace(cast(list[object], listed) if isinstance(listed, list) else [])
        elif tool == MADE:
            self._made += 1
            self._tasks[call] = TaskItem(str(given.subject or given.description or "(a task without a name)"))
        else:
            self._change(str(given.taskId or ""), given)

    def number(self, call: str, result: str) -> None:
        """The result of making a task: from now on it goes by its number."""
        if (found := _NUMBER.search(result)) and call in self._tasks:
            self._tasks = {found[1] if at == call else at: task for at, task in self._tasks.items()}

    def all(self) -> tuple[TaskItem, ...]:
        return tuple(self._tasks.values())

    def _replace(self, listed: list[object]) -> None:
        maps = [cast(dict[str, Any], each) for each in listed if isinstance(each, dict)]
        self._tasks = {
            f"list {at}": TaskItem(text, _status(each.get("status")))
            for at, each in enumerate(maps)
            if (text := str(each.get("content") or each.get("step") or each.get("subject") or ""))
        }

    def _change(self, name: str, given: ToolInputFields) -> None:
        before = self._tasks.get(name, TaskItem(f"task #{name}"))
        status = _status(given.status) if given.status is not None else before.status
        self._tasks[name] = TaskItem(str(given.subject or before.text), status)


def _status(word: object) -> Status:
    return _STATUSES.get(str(word), "pending")
