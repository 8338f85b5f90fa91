"""TodoWrite: the list of what is to be done, replaced as a whole.

The list is kept in the calls themselves, so a compaction finds it in the log and brings it back
(`decide/compact/work.py`); the `TodoList` here is for showing it.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from everturn.chat.tools import schema
from everturn.chat.tools.inputs import ToolError, ToolInput
from everturn.session.tools import Tool

STATUSES: Final = ("pending", "in_progress", "completed")
# More than this is no list that anybody works through. Our choice.
MAX_TODOS: Final = 100


class Todo(msgspec.Struct, frozen=True):
    content: str
    status: str = "pending"


class TodoList:
    """The newest list."""

    def __init__(self) -> None:
        self.todos: tuple[Todo, ...] = ()

    def replace(self, todos: tuple[Todo, ...]) -> None:
        self.todos = todos


_ITEM: Final = {
    "type": "object",
    "properties": {
        "content": schema.string_field("What is to be done"),
        "status": schema.enum_field("How far it is", *STATUSES),
        "activeForm": schema.string_field("The same while it is being done: 'Running the tests'"),
    },
    "required": ["content", "status"],
}
DEFINITION: Final = schema.tool_definition(
    "TodoWrite",
    """Keep a list of the steps of a task that has several. The list given replaces the old one. One step at
    a time is in_progress; mark a step completed as soon as it is.""",
    {"todos": {"type": "array", "items": _ITEM, "description": "The whole list, in order"}},
    "todos",
)


def todo_tool(todo: TodoList) -> Tool:
    def run(fields: Mapping[str, Any]) -> str:
        listed = ToolInput("TodoWrite", fields).items("todos")
        if len(listed) > MAX_TODOS:
            raise ToolError(
                f"A list of {len(listed)} steps is too long; the most is {MAX_TODOS}. Put some together."
            )
        todo.replace(tuple(_todo(each) for each in listed))
        return _said(todo.todos)

    return Tool(DEFINITION, run)


def _todo(fields: Mapping[str, Any]) -> Todo:
    given = ToolInput("TodoWrite", fields)
    return Todo(" ".join(given.words("content").split()), given.choice("status", STATUSES))


def _said(todos: tuple[Todo, ...]) -> str:
    if not todos:
        return "The list is empty now."
    left = sum(todo.status != "completed" for todo in todos)
    return f"The list is kept: {left} of {len(todos)} to do." if left else "The list is kept: all is done."
