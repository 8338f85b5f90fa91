"""Task: hands a question to a search agent with its own conversation (`chat/subagent.py`)."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from everturn.chat.tools.inputs import (
    ToolInput,
    string_field,
    tool_definition,
)
from everturn.session.tools import Tool

# Takes the question, returns the report.
Search = Callable[[str], str]

DEFINITION: Final = tool_definition(
    "Task",
    """Have a second agent search the workspace and report. It can read, list and search files, and cannot
    change anything. It does not see this conversation: give it all the information it needs. Use it for
    questions that take many searches; what it reads stays out of this conversation.""",
    {
        "description": string_field("The task in three to five words"),
        "prompt": string_field("What to find out, and what to report"),
    },
    "description",
    "prompt",
)


def task_tool(search: Search) -> Tool:
    def run(fields: Mapping[str, Any]) -> str:
        return search(ToolInput("Task", fields).string("prompt"))

    return Tool(DEFINITION, run)
