"""Tools whose calls are shown: a waiting line while one runs, then one line with what came out of it.

The tools do what they did before. How a line looks is `screen/calls.py`; what they do is `tools/`.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from everturn.chat.screen.calls import Went, call_line, running, todo_lines
from everturn.chat.screen.status import waiting
from everturn.chat.screen.terminal import Terminal
from everturn.chat.tools.todo import TodoList
from everturn.session.talk.tools import Given, Tool


class Watching:
    """`begins` is told before each call. `was_stopped` tells whether an interrupt met a tool."""

    def __init__(self, terminal: Terminal, todo: TodoList, *, begins: Callable[[], None]) -> None:
        self._terminal, self._todo, self._begins = terminal, todo, begins
        self.was_stopped = False

    def wait(self, what: str = "working", *, already: float = 0.0) -> None:
        self._terminal.wait_for(lambda seconds: waiting(what, already + seconds, self._terminal.screen))

    def tools(self, tools: Iterable[Tool], *, deep: int = 0) -> tuple[Tool, ...]:
        """Calls of an agent that was asked by another one are `deep`er."""
        return tuple(self._watched(tool, deep) for tool in tools)

    def _watched(self, tool: Tool, deep: int) -> Tool:
        run = tool.run
        assert run is not None, "every tool of the chat runs here"

        def watched(given: Mapping[str, Any]) -> Given:
            def ended(result: str, went: Went) -> None:
                screen = self._terminal.screen
                self._terminal.show([call_line(tool.name, given, result, went, screen, deep=deep)])

            before = self._todo.todos
            self._begins()
            self.wait(running(tool.name, given))
            try:
                result = run(given)
            except Exception as problem:
                ended(str(problem), "wrong")
                raise
            except BaseException:
                self.was_stopped = True
                ended("stopped", "wrong")
                raise
            ended(_text_of(result), "well")
            self._show_list(before)
            self.wait()
            return result

        return Tool(tool.definition, watched)

    def _show_list(self, before: object) -> None:
        if self._todo.todos != before:
            self._terminal.show(todo_lines(self._todo.todos, self._terminal.screen))


def _text_of(result: Given) -> str:
    if isinstance(result, str):
        return result
    return "\n".join(str(part.get("text") or f"[{part.get('type')}]") for part in result)
