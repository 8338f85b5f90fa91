"""Wraps tools so that their calls are shown: a waiting line while one runs, then one line with its result.

The tools themselves (`tools/`) do not change. `screen/tool_calls.py` formats the lines.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from everturn.chat.screen.status import format_waiting
from everturn.chat.screen.terminal import Terminal
from everturn.chat.screen.tool_calls import CallStatus, format_call, format_running_call, format_todos
from everturn.chat.tools.todo import TodoList
from everturn.session.tools import Tool, ToolContent


class ToolDisplay:
    """`begins` is called before each call. `was_interrupted` tells whether Ctrl-C hit a running tool."""

    def __init__(self, terminal: Terminal, todo: TodoList, *, begins: Callable[[], None]) -> None:
        self._terminal, self._todo, self._begins = terminal, todo, begins
        self.was_interrupted = False
        # The input of the call that runs now; of nested calls, the innermost.
        self.current_input: Mapping[str, Any] = {}

    def wait(self, what: str = "working", *, already: float = 0.0) -> None:
        self._terminal.show_waiting(
            lambda seconds: format_waiting(what, already + seconds, self._terminal.screen)
        )

    def tools(self, tools: Iterable[Tool], *, deep: int = 0) -> tuple[Tool, ...]:
        """Calls of a sub-agent are indented by `deep` levels."""
        return tuple(self._watched(tool, deep) for tool in tools)

    def _watched(self, tool: Tool, deep: int) -> Tool:
        run = tool.run
        assert run is not None, "every tool of the chat has a function"

        def watched(given: Mapping[str, Any]) -> ToolContent:
            def ended(result: str, went: CallStatus) -> None:
                screen = self._terminal.screen
                self._terminal.show([format_call(tool.name, given, result, went, screen, deep=deep)])

            before, outer = self._todo.todos, self.current_input
            self._begins()
            self.current_input = given
            self.wait(format_running_call(tool.name, given))
            try:
                result = run(given)
            except Exception as problem:
                ended(str(problem), "wrong")
                raise
            except BaseException:
                self.was_interrupted = True
                ended("stopped", "wrong")
                raise
            finally:
                self.current_input = outer
            ended(_text_of(result), "well")
            self._show_list(before)
            self.wait()
            return result

        return Tool(tool.definition, watched)

    def _show_list(self, before: object) -> None:
        if self._todo.todos != before:
            self._terminal.show(format_todos(self._todo.todos, self._terminal.screen))


def _text_of(result: ToolContent) -> str:
    if isinstance(result, str):
        return result
    return "\n".join(str(part.get("text") or f"[{part.get('type')}]") for part in result)
