"""The search agent behind the Task tool: it reads, lists and searches in a conversation of its own.

What it reads stays in its conversation; its last words are all that comes back. Each question is a new
conversation, in a file of its own beside the others of the session, so that it can be looked at afterwards.
What they cost is added up here, for the bill.
"""

import functools
import operator
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

from everturn.chat.permission import Permissions
from everturn.chat.tools.files.workspace import Workspace
from everturn.chat.tools.inputs import ToolError
from everturn.chat.tools.toolbox import build_read_only_tools
from everturn.session.bill import UsageTotals
from everturn.session.session import Session
from everturn.session.tools import Tool, ToolResult

# More rounds than this and the question was too wide. Our choice.
MAX_ROUNDS: Final = 25
SYSTEM_PROMPT: Final = """\
You search a workspace for another agent that cannot see what you see. Use Glob and Grep to find places and
Read to look at them. You cannot change anything, and there is nobody to ask. When you know enough, answer in
a short report: what you found, with paths and line numbers, and what you looked for and did not find. Only
that report is passed on."""


class SessionOpener(Protocol):
    """Opens a session of this file with these tools: model, client and policy are the caller's."""

    def __call__(self, path: Path, *, tools: tuple[Tool, ...], system: str) -> Session: ...


class SearchAgent:
    """Answers one question after another; `spent` is what all of them cost."""

    def __init__(
        self,
        workspace: Workspace,
        permissions: Permissions,
        *,
        opens: SessionOpener,
        new_path: Callable[[], Path],
    ) -> None:
        # A workspace of its own: what the searcher has read, the main agent has not.
        own = Workspace(workspace.root, environment=workspace.environment)
        self._tools = build_read_only_tools(own, permissions)
        self._opens = opens
        self._new_path = new_path
        self._bills: list[UsageTotals] = []

    @property
    def spent(self) -> UsageTotals:
        return functools.reduce(operator.add, self._bills, UsageTotals())

    def __call__(self, question: str) -> str:
        with self._opens(self._new_path(), tools=self._tools, system=SYSTEM_PROMPT) as session:
            try:
                return _report(session, question)
            finally:
                self._bills.append(session.bill.total)


def _report(session: Session, question: str) -> str:
    reply = session.send(question, rounds=MAX_ROUNDS)
    if reply.stopped:
        # Its last calls are still open; the answer to each is that it is time to report.
        over = [
            ToolResult(call.id, "No more searches: report what you found so far.") for call in reply.calls
        ]
        reply = session.send(over, rounds=0)
    if not reply.text.strip():
        raise ToolError(
            "The search agent found no words for what it saw. Search for yourself, or ask for less."
        )
    return reply.text
