"""What agents reported: the result of a call that ran one, or the notice that one in the background ended."""

import re
from collections.abc import Mapping
from typing import Final

from everturn.decide.extractive.reading.facts import AgentReport

_LAUNCHED: Final = re.compile(r"agent launched\b", re.IGNORECASE)
_AGENT: Final = re.compile(r"agentId:\s{0,4}([\w-]{1,80})")
_NOTICE: Final = "<task-notification>"
_PARTS: Final = ("task-id", "task_id", "status", "summary", "result", "output")
# Remarks of the harness behind a report.
_FOOTER: Final = re.compile(
    r"\n?(?:agentId: \S+ \(|<usage>|<total_tokens>|Full transcript (?:available )?at:)[\s\S]*\Z"
)
# Before the report, the harness lists what the agent called.
_CALLED: Final = ("[Tool: ", "--- RESULT ---")
_SHELL: Final = "local_bash"


class AgentReports:
    """Reports in the order in which they came; an agent that has not reported yet is running."""

    def __init__(self) -> None:
        self._reports: list[AgentReport] = []
        self._running: dict[str, str] = {}

    def returned(self, name: str, text: str, record: str, *, failed: bool) -> None:
        """The result of a call that ran an agent or fetched what it reported."""
        if _LAUNCHED.search(text[:400]):
            found = _AGENT.search(text[:4_000])
            self._running[found[1] if found else name] = name
            return
        parts = _parts(text)
        if _SHELL in text[:400] or parts.get("status") == "running":
            return
        known = self._running.pop(_id(parts), "") or name
        self._add(known, parts.get("result") or parts.get("output") or text, record, failed=failed)

    def notified(self, text: str, record: str) -> None:
        """The notice of the harness that an agent ended."""
        if _NOTICE not in text[:400]:
            return
        parts = _parts(text)
        name = self._running.pop(_id(parts), "")
        said = parts.get("result") or parts.get("summary", "")
        if name or parts.get("result"):
            failed = parts.get("status") in ("failed", "killed")
            self._add(name or parts.get("summary", ""), said, record, failed=failed)

    def stopped(self, name: str) -> None:
        self._running.pop(name, None)

    def all(self) -> tuple[AgentReport, ...]:
        return tuple(self._reports)

    def running(self) -> tuple[str, ...]:
        return tuple(self._running.values())

    def _add(self, name: str, text: str, record: str, *, failed: bool) -> None:
        lines = (line for line in text.splitlines() if not line.startswith(_CALLED))
        words = _FOOTER.sub("", "\n".join(lines)).strip()
        if words:
            self._reports.append(AgentReport(name, words, record, failed))


def _id(parts: Mapping[str, str]) -> str:
    return parts.get("task-id") or parts.get("task_id", "")


def _parts(text: str) -> Mapping[str, str]:
    """The elements of a notice by name; the first of each."""
    found: dict[str, str] = {}
    for name in _PARTS:
        _, start, rest = text.partition(f"<{name}>")
        inner, end, _ = rest.partition(f"</{name}>")
        if start and end:
            found[name] = inner.strip()
    return found
