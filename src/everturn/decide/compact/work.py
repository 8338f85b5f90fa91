"""Work that is not finished: the todo list, the plan, and agents in the background (CP-14, CP-16).

Read from calls and their answers as agents record them (field names seen in recorded sessions), and from the
attachments that an earlier compaction left. The lines that we write are the lines that we read.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from everturn.decide.compact.call_index import Called, CallIndex, index_calls, mappings, text
from everturn.decide.compact.divide import is_said
from everturn.decide.compact.settings import CompactSettings
from everturn.history.blocks import text_of
from everturn.history.records import Record
from everturn.measure.tool_table import ToolTable

TODOS, PLAN, AGENTS = "restored_todos", "restored_plan", "restored_agents"

_CREATED: Final = re.compile(r"Task #(\w+) created")
_LINE: Final = re.compile(r"^- \[(?P<status>\w+)\](?: #(?P<id>\w+))? (?P<words>.*)$", re.MULTILINE)

_LAUNCHED: Final = re.compile(r"agent launched.*?agentId:\s*([\w-]+)", re.IGNORECASE | re.DOTALL)
_STATUS: Final = re.compile(r"<status>(\w+)</status>")
_NOTICE: Final = re.compile(
    r"<task-notification>\s*<task-id>([\w-]+)</task-id>.*?<status>(\w+)</status>", re.DOTALL
)
_AGENT_LINE: Final = re.compile(r"^- ([\w-]+) \((\w+)\): (.*)$")
_OVER: Final = frozenset({"completed", "failed", "killed", "cancelled", "stopped"})


def todo_list(seen: CallIndex) -> str:
    """The list as it stands, a line each; "" where there is none, or nothing on it is left to do."""
    lists = seen.called("replaces_tasks")
    tasks = seen.called("adds_task", "changes_task")
    restored = seen.attached(TODOS)
    newest_list = max((each.at for each in lists if not each.failed), default=-1)
    newest_task = max((each.at for each in tasks), default=-1)
    from_before = restored[-1] if restored else None
    if newest_list > max(newest_task, from_before.at if from_before else -1):
        return _open([_todo(each) for each in _todos(lists)])
    known = _parsed(from_before.parts[-1]) if from_before and from_before.parts else {}
    since = [each for each in tasks if from_before is None or each.at > from_before.at]
    return _open(list(_with_tasks(known, since, seen.tools).values()))


def is_task_finished(records: Sequence[Record], settings: CompactSettings, tools: ToolTable) -> bool:
    """Whether the model has said its last word, calls nothing more, and no todo is open."""
    said = next((each for each in reversed(records) if is_said(each)), None)
    if said is None or said.kind != "assistant" or any(block.is_call for block in said.blocks):
        return False
    return not todo_list(index_calls(records, settings.add_tools(tools)))


def _todos(lists: Sequence[Called]) -> tuple[Mapping[str, Any], ...]:
    given = next(each.given for each in reversed(lists) if not each.failed)
    return mappings(given.get("todos")) or mappings(given.get("plan"))


def _todo(fields: Mapping[str, Any]) -> tuple[str, str, str]:
    words = text(fields.get("content")) or text(fields.get("step")) or text(fields.get("description"))
    return text(fields.get("status")) or "pending", text(fields.get("id")), words


def _with_tasks(
    known: dict[str, tuple[str, str, str]], calls: Sequence[Called], tools: ToolTable
) -> dict[str, tuple[str, str, str]]:
    found = dict(known)
    for each in calls:
        if tools.find(each.tool).does == "adds_task":
            number = _CREATED.search(each.answer)
            name = number[1] if number else str(len(found) + 1)
            found[name] = "pending", name, text(each.given.get("subject"))
            continue
        name = text(each.given.get("taskId"))
        status, _, words = found.get(name, ("pending", name, ""))
        status = text(each.given.get("status")) or status
        found[name] = status, name, text(each.given.get("subject")) or words
        if status == "deleted" or not name:
            del found[name]
    return found


def _parsed(lines: str) -> dict[str, tuple[str, str, str]]:
    rows = (match.groupdict() for match in _LINE.finditer(lines))
    return {row["id"] or row["words"]: (row["status"], row["id"] or "", row["words"]) for row in rows}


def _open(todos: Sequence[tuple[str, str, str]]) -> str:
    if all(status == "completed" for status, _, _ in todos):
        return ""
    lines = (
        f"- [{status}]{f' #{name}' if name else ''} {' '.join(words.split())}"
        for status, name, words in todos
    )
    return "\n".join(lines)


def plan_made(seen: CallIndex) -> str:
    """The newest plan, whole: as it was presented, or as an earlier compaction restored it."""
    presented = seen.called("presents_plan")
    plans = [(each.at, text(each.given.get("plan"))) for each in presented]
    plans += [(each.at, each.parts[-1]) for each in seen.attached(PLAN) if each.parts]
    return max(((at, plan) for at, plan in plans if plan), default=(-1, ""))[1]


def is_planning(seen: CallIndex) -> bool:
    """Whether plan mode is on: entered, and no plan approved and no other mode chosen since."""
    entered = [each.at for each in seen.called("enters_plan_mode") if not each.failed]
    entered += [each.at for each in seen.attached("plan_mode", "plan_mode_reentry")]
    left = [each.at for each in seen.called("presents_plan") if each.result is not None and not each.failed]
    left += [each.at for each in seen.attached("plan_mode_exit")]
    # Claude Code writes the mode beside every message of a person.
    for at, record in enumerate(seen.records):
        if record.kind == "user" and record.permission_mode:
            (entered if record.permission_mode == "plan" else left).append(at)
    return max(entered, default=-1) > max(left, default=-1)


def agents_at_work(seen: CallIndex) -> tuple[str, ...]:
    """Agents that run in the background and whose result nobody has fetched."""
    found: dict[str, tuple[str, str]] = {}
    for each in seen.attached(AGENTS):
        for line in each.parts[1:]:
            if match := _AGENT_LINE.match(line):
                found[match[1]] = match[2], match[3]
    for each in seen.called("runs_agent"):
        name = _launched(each)
        if name:
            words = text(each.given.get("description")) or text(each.given.get("prompt"))[:80]
            found[name] = "running", " ".join(words.split())
    for name, status in _finished(seen.records):
        if name in found:
            found[name] = status, found[name][1]
    for name in _collected(seen):
        found.pop(name, None)
    return tuple(f"- {name} ({status}): {words}" for name, (status, words) in found.items())


def _launched(call: Called) -> str:
    """The id of an agent that was started without waiting for it; "" where its result came at once."""
    started = _LAUNCHED.search(call.answer)
    return started[1] if started and not call.failed else ""


def _finished(records: Sequence[Record]) -> list[tuple[str, str]]:
    """Agents that the program reported as over: their result still waits to be fetched."""
    texts = (
        text_of(block)
        for record in records
        if record.kind == "user"
        for block in record.blocks
        if block.kind == "text"
    )
    return [found for words in texts if "<task-notification>" in words for found in _NOTICE.findall(words)]


def _collected(seen: CallIndex) -> list[str]:
    names: list[str] = []
    for each in seen.called("collects_agent", "stops_agent"):
        name = next(
            (found for key in ("task_id", "agentId", "shell_id") if (found := text(each.given.get(key)))), ""
        )
        status = _STATUS.search(each.answer)
        stopped = seen.tools.find(each.tool).does == "stops_agent" and not each.failed
        if name and (stopped or (status and status[1] in _OVER)):
            names.append(name)
    return names
