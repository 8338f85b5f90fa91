"""All tools of the chat, in the order in which they are sent to the model.

The definitions are the first bytes of every request: changing their order or text invalidates the prompt
cache.
"""

from everturn.chat.permission import Permissions
from everturn.chat.tools.bash import bash_tool
from everturn.chat.tools.files.edit import edit_tool, write_tool
from everturn.chat.tools.files.read import IsVisible, never_visible, read_tool
from everturn.chat.tools.files.workspace import Workspace
from everturn.chat.tools.search.glob import glob_tool
from everturn.chat.tools.search.grep import grep_tool
from everturn.chat.tools.task import Search, task_tool
from everturn.chat.tools.todo import TodoList, todo_tool
from everturn.session.memory_files.attach import attach_memory
from everturn.session.memory_files.nested import NestedMemory
from everturn.session.tools import Tool


def build_tools(
    workspace: Workspace,
    permissions: Permissions,
    *,
    search: Search | None = None,
    todo: TodoList | None = None,
    memory: NestedMemory | None = None,
    is_visible: IsVisible = never_visible,
) -> tuple[Tool, ...]:
    """`search` adds the Task tool; `memory` attaches the memory files of the folders that are touched;
    `is_visible` tells whether the model still sees what it read."""
    touching = (
        read_tool(workspace, permissions, is_visible),
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
    """The tools of the search agent, none of which changes anything."""
    return read_tool(workspace, permissions), *build_search_tools(workspace, permissions)
