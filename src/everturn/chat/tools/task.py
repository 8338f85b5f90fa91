"""Task: a question handed to a search agent with a conversation of its own (`chat/subagent.py`)."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from everturn.chat.tools import schema
from everturn.chat.tools.inputs import ToolInput
from everturn.session.tools import Tool

# Gets the question, gives the last words of whoever looked.
Search = Callable[[str], str]

DEFINITION: Final = schema.tool_definition(
    "Task",
    """Have a second agent search the workspace and report. It can read, list and search files, and changes
    nothing. It does not know this conversation: say everything it needs. Use it for questions that take many
    searches; what it reads stays out of this conversation.""",
    {
        "description": schema.string_field("The task in three to five words"),
        "prompt": schema.string_field("What to find out, and what to report"),
    },
    "description",
    "prompt",
)


def task_tool(search: Search) -> Tool:
    def run(fields: Mapping[str, Any]) -> str:
        return search(ToolInput("Task", fields).words("prompt"))

    return Tool(DEFINITION, run)
