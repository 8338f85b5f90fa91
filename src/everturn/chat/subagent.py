"""The search agent behind the Task tool: reads, lists and searches files in its own conversation.

Only its final report is returned; what it read stays out of the main conversation. Each question is a new
conversation with its own transcript in the session's files folder, so it can be inspected later. Their cost
is summed up here, for the bill.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

from everturn.chat.permission import Permissions
from everturn.chat.tools.files.workspace import Workspace
from everturn.chat.tools.inputs import ToolError
from everturn.chat.tools.toolbox import build_read_only_tools
from everturn.decide.effects import HookEvent, HookOutcome
from everturn.session.bill import UsageTotals
from everturn.session.loop_hooks import MAX_CONTINUATIONS
from everturn.session.session import Session
from everturn.session.tools import Tool, ToolResult

# A question that needs more rounds is too broad. Our choice.
MAX_ROUNDS: Final = 25
# As hooks are told, and as their matchers see it.
AGENT_TYPE: Final = "search"
SYSTEM_PROMPT: Final = """\
You search a workspace for another agent that cannot see what you see. Use Glob and Grep to find places and
Read to look at them. You cannot change anything, and there is nobody to ask. When you know enough, answer in
a short report: what you found, with paths and line numbers, and what you looked for and did not find. Only
that report is passed on."""


class SessionOpener(Protocol):
    """Opens a session on this file with these tools; the caller chooses model, client and policy."""

    def __call__(self, path: Path, *, tools: tuple[Tool, ...], system: str) -> Session: ...


class HookRunner(Protocol):
    """Runs the hooks of the main session."""

    def __call__(self, event: HookEvent, **payload: Any) -> HookOutcome: ...


def run_no_hooks(event: HookEvent, **payload: Any) -> HookOutcome:
    return HookOutcome()


class SearchAgent:
    """Answers questions one after another; `spent` is their total cost in this conversation."""

    def __init__(
        self,
        workspace: Workspace,
        permissions: Permissions,
        *,
        opens: SessionOpener,
        new_path: Callable[[], Path],
        run_hooks: HookRunner = run_no_hooks,
    ) -> None:
        # Its own workspace: files read by the search agent do not count as read by the main agent.
        own = Workspace(workspace.root, environment=workspace.environment)
        self._tools = build_read_only_tools(own, permissions)
        self._opens = opens
        self._new_path = new_path
        self._run_hooks = run_hooks
        self.spent = UsageTotals()

    def __call__(self, question: str) -> str:
        path = self._new_path()
        about = {"agent_id": path.stem, "agent_type": AGENT_TYPE}
        started = self._run_hooks("SubagentStart", **about)
        session = self._opens(path, tools=self._tools, system=SYSTEM_PROMPT)
        try:
            report = _report(session, "\n\n".join((*started.context, question)))
            return self._finish(session, report, about | {"agent_transcript_path": session.path})
        finally:
            self.spent += session.bill.total
            # SubagentStop takes the place of SessionEnd.
            session.close(reason="")

    def _finish(self, session: Session, report: str, about: Mapping[str, str]) -> str:
        """Run SubagentStop hooks. One that blocks makes the agent continue with its reason."""
        for count in range(MAX_CONTINUATIONS + 1):
            outcome = self._run_hooks(
                "SubagentStop", **about, last_assistant_message=report, stop_hook_active=count > 0
            )
            if outcome.ended or not outcome.blocked or count == MAX_CONTINUATIONS:
                break
            report = _report(session, outcome.blocked)
        return report


def _report(session: Session, question: str) -> str:
    reply = session.send(question, rounds=MAX_ROUNDS)
    if reply.stopped:
        # Its last calls are still open; each gets a result that asks for the report.
        over = [
            ToolResult(call.id, "No more searches: report what you found so far.") for call in reply.calls
        ]
        reply = session.send(over, rounds=0)
    if not reply.text.strip():
        raise ToolError(
            "The search agent returned an empty report. Search yourself, or ask a narrower question."
        )
    return reply.text
