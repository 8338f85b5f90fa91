"""TodoWrite: the todo list, replaced as a whole.

The list is stored in the calls, so a compaction finds it in the log and restores it
(`decide/compact/work.py`). The `TodoList` here is only for display.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from everturn.chat.tools.inputs import (
    ToolError,
    ToolInput,
    enum_field,
    string_field,
    tool_definition,
)
from everturn.session.tools import Tool

STATUSES: Final = ("pending", "in_progress", "completed")
# A longer list is not useful. Our choice.
MAX_TODOS: Final = 100


class Todo(msgspec.Struct, frozen=True):
    content: str
    status: str = "pending"


class TodoList:
    """The current list."""

    def __init__(self) -> None:
        self.todos: tuple[Todo, ...] = ()

    def replace(self, todos: tuple[Todo, ...]) -> None:
        self.todos = todos


_ITEM: Final = {
    "type": "object",
    "properties": {
        "content": string_field("What is to be done"),
        "status": enum_field("The status of the step", *STATUSES),
        "activeForm": string_field("The step in the present continuous: 'Running the tests'"),
    },
    "required": ["content", "status"],
}
DEFINITION: Final = tool_definition(
    "TodoWrite",
    """Keep a list of steps for a task that has several. The new list replaces the old one. Exactly one step
    is in_progress at a time; mark a step completed as soon as it is done.""",
    {"todos": {"type": "array", "items": _ITEM, "description": "The whole list, in order"}},
    "todos",
)


def todo_tool(todo: TodoList) -> Tool:
    def run(fields: Mapping[str, Any]) -> str:
        listed = ToolInput("TodoWrite", fields).objects("todos")
        if len(listed) > MAX_TODOS:
            raise ToolError(f"The list has {len(listed)} steps; the maximum is {MAX_TODOS}. Combine some.")
        todo.replace(tuple(_todo(each) for each in listed))
        return _said(todo.todos)

    return Tool(DEFINITION, run)


def _todo(fields: Mapping[str, Any]) -> Todo:
    given = ToolInput("TodoWrite", fields)
    return Todo(" ".join(given.string("content").split()), given.enum("status", STATUSES))


def _said(todos: tuple[Todo, ...]) -> str:
    if not todos:
        return "The list is empty."
    left = sum(todo.status != "completed" for todo in todos)
    return f"List saved: {left} of {len(todos)} open." if left else "List saved: all done."
