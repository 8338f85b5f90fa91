"""The list of tasks as its tools keep it: the last whole list, or tasks made and changed one by one."""

import re
from collections.abc import Mapping
from typing import Any, Final, cast

from everturn.decide.summary.reading.calls import Given
from everturn.decide.summary.reading.facts import Status, Task

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
        self._tasks: dict[str, Task] = {}
        self._made = 0
        self.is_known = False

    def note(self, tool: str, call: str, given: Given) -> None:
        self.is_known = True
        if tool in WHOLE_LIST:
            listed = given.todos if given.todos is not None else given.plan
            self._replace(cast(list[object], listed) if isinstance(listed, list) else [])
        elif tool == MADE:
            self._made += 1
            self._tasks[call] = Task(str(given.subject or given.description or "(a task without a name)"))
        else:
            self._change(str(given.taskId or ""), given)

    def number(self, call: str, result: str) -> None:
        """The result of making a task: from now on it goes by its number."""
        if (found := _NUMBER.search(result)) and call in self._tasks:
            self._tasks = {found[1] if at == call else at: task for at, task in self._tasks.items()}

    def all(self) -> tuple[Task, ...]:
        return tuple(self._tasks.values())

    def _replace(self, listed: list[object]) -> None:
        maps = [cast(dict[str, Any], each) for each in listed if isinstance(each, dict)]
        self._tasks = {
            f"list {at}": Task(text, _status(each.get("status")))
            for at, each in enumerate(maps)
            if (text := str(each.get("content") or each.get("step") or each.get("subject") or ""))
        }

    def _change(self, name: str, given: Given) -> None:
        before = self._tasks.get(name, Task(f"task #{name}"))
        status = _status(given.status) if given.status is not None else before.status
        self._tasks[name] = Task(str(given.subject or before.text), status)


def _status(word: object) -> Status:
    return _STATUSES.get(str(word), "pending")
