"""All tools of the chat, in the order in which the model is told of them.

The order and the words of the definitions are the first bytes of every request: a change of them makes the
provider's cache cold.
"""

from everturn.chat.permission import Permissions
from everturn.chat.tools.files.read import read_tool
from everturn.chat.tools.files.workspace import Workspace
from everturn.chat.tools.task import Search, task_tool
from everturn.chat.tools.todo import TodoList, todo_tool
from everturn.session.memory_files.nested import NestedMemory
from everturn.session.talk.tools import Tool


def toolbox(
    workspace: Workspace,
    permissions: Permissions,
    *,
    search: Search | None = None,
    todo: TodoList | None = None,
    memory: NestedMemory | None = None,
) -> tuple[Tool, ...]:
    """`search` makes the Task tool, `memory` attaches instructions of the folders that are touched."""
    return (
        read_tool(workspace, permissions),
        todo_tool(todo or TodoList()),
        *([task_tool(search)] if search else []),
    )
