"""All tools of the chat, in the order in which the model is told of them.

The order and the words of the definitions are the first bytes of every request: a change of them makes the
provider's cache cold.
"""

from everturn.chat.permission import Permissions
from everturn.chat.tools.bash import bash_tool
from everturn.chat.tools.files.edit import edit_tool, write_tool
from everturn.chat.tools.files.read import read_tool
from everturn.chat.tools.files.workspace import Workspace
from everturn.chat.tools.memory import attach_memory
from everturn.chat.tools.search.glob import glob_tool
from everturn.chat.tools.search.grep import grep_tool
from everturn.chat.tools.task import Search, task_tool
from everturn.chat.tools.todo import TodoList, todo_tool
from everturn.session.memory_files.nested import NestedMemory
from everturn.session.tools import Tool


def build_tools(
    workspace: Workspace,
    permissions: Permissions,
    *,
    search: Search | None = None,
    todo: TodoList | None = None,
    memory: NestedMemory | None = None,
) -> tuple[Tool, ...]:
    """`search` makes the Task tool, `memory` attaches instructions of the folders that are touched."""
    touching = (
        read_tool(workspace, permissions),
        write_tool(workspace, permissions),
        edit_tool(workspace, permissions),
    )
    return (
        *(attach_memory(tool, memory) if memory else tool for tool in touching),
        *build_search_tools(workspace, permissions),
        bash_tool(workspace, permissions),
        todo_tool(todo or TodoList()),
        *([task_tool(search)] if search else []),
    )


def build_search_tools(workspace: Workspace, permissions: Permissions) -> tuple[Tool, ...]:
    return glob_tool(workspace, permissions), grep_tool(workspace, permissions)


def build_read_only_tools(workspace: Workspace, permissions: Permissions) -> tuple[Tool, ...]:
    """What a search agent gets: nothing in it changes anything."""
    return read_tool(workspace, permissions), *build_search_tools(workspace, permissions)
