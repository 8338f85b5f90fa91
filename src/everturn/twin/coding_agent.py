"""A rule-based coding agent, for clients that offer coding tools over a real folder (TW-8).

A turn is a generator that yields tool calls and receives their results. Each request runs it again from the
start of the turn, with the results in the messages, so it stores no state and gives equal replies to equal
requests. It recognizes a few intents (`intents.py`), does a job for each (`coding_jobs.py`), and says so if
it cannot make a change. It changes a file or runs a command only if the user asked for exactly that;
otherwise it only reads.
"""

import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Final, NamedTuple

from everturn.history.repair import NO_RESULT
from everturn.twin.client_tools import ClientTools, ObservedResult, PlannedToolCall, find_client_tools
from everturn.twin.coding_jobs import (
    CoderTurn,
    PlannedStep,
    change,
    delegate_search,
    find_agent_tool,
    list_files,
    read_all,
    recall,
    run,
    search_and_read,
)
from everturn.twin.intents import Intents, parse_intents
from everturn.twin.request_text import extract_text
from everturn.twin.tool_loading import find_loaded_tools
from everturn.twin.user_prompts import UserPrompt, find_prompt, strip_reminders
from everturn.twin.values import ParsedBlock, ParsedMessage, ParsedRequest

# A turn ends after this many steps, whatever the tools return.
MAX_STEPS: Final = 30
_SMALL_TALK: Final = {
    "greeting": "Hello. Tell me what to look at, to change or to run, and name files or words where you can.",
    "thanks": "You are welcome. What should I look at next?",
}
_UNSUPPORTED_CHANGE: Final = (
    "I follow fixed rules and cannot make this change on my own: tell me what to replace with what, which "
    "line to add to which file, or which command to run, and I will do it."
)
# Steps of a plan that the user has not asked for yet.
_LATER: Final = ("Make the change", "Run the tests")
_TASK_NUMBER: Final = re.compile(r"#(\d{1,9})\b")
_NOTHING_PENDING: Final = (
    "The earlier work is summarized above, and nothing is pending. What should I look at next?"
)


class _Round(NamedTuple):
    """The tool calls of one reply, and their results."""

    calls: list[PlannedToolCall]
    results: list[ObservedResult]


NamedStep = tuple[str, CoderTurn]


def can_handle(request: ParsedRequest) -> bool:
    """Whether the request offers tools over a folder with known inputs, and forces no tool and no format."""
    if request.get_object("tool_choice").get("type", "auto") != "auto":
        return False
    if request.get_object("output_config").get("format") or request.body.get("output_format"):
        return False
    return find_client_tools(find_loaded_tools(request)).can_look


def plan_next_step(request: ParsedRequest) -> PlannedStep | str:
    """The next calls, or the final text. Calls whose results were lost are repeated."""
    tools, prompt = find_client_tools(find_loaded_tools(request)), find_prompt(request.messages)
    rounds = _find_rounds(request.messages[prompt.at + 1 :])
    turn = _turn(_add_kept_reads(prompt, rounds, tools), tools)
    if request.get_object("tool_choice").get("disable_parallel_tool_use"):
        turn = _one_at_a_time(turn)
    left = [each for each in rounds[:MAX_STEPS] if all(seen.text != NO_RESULT for seen in each.results)]
    try:
        step = next(turn)
        while (found := _find_round(step, left, in_order=not prompt.follows_summary)) is not None:
            left.remove(found)
            step = turn.send(found.results)
    except StopIteration as done:
        return str(done.value)
    return step if len(rounds) < MAX_STEPS else "I stopped here: this took too many steps."


def _add_kept_reads(prompt: UserPrompt, rounds: Sequence[_Round], tools: ClientTools) -> UserPrompt:
    """The prompt with the files that were read in rounds kept behind the summary. No turn begins with a read,
    so the first ones are of the turn before it."""
    if not (prompt.follows_summary and tools.reader):
        return prompt
    name, path = tools.reader.name, tools.reader.path
    kept = takewhile(lambda each: all(call.tool == name for call in each.calls), rounds)
    read = (str(call.input.get(path)) for each in kept for call in each.calls)
    return replace(prompt, files_read=tuple(dict.fromkeys((*prompt.files_read, *read))))


def _find_round(step: PlannedStep, left: Sequence[_Round], *, in_order: bool) -> _Round | None:
    """The round that answers a step. After a compaction the first rounds of a turn may be missing, and only
    those count whose calls are the planned ones."""
    whole = (each for each in left if len(each.results) == len(step.calls))
    return next((each for each in whole if in_order or each.calls == list(step.calls)), None)


def _find_rounds(messages: Sequence[ParsedMessage]) -> list[_Round]:
    """The rounds of tool calls, with the results in the order of their calls: clients may send them in any
    order."""
    found: list[_Round] = []
    calls: list[ParsedBlock] = []
    order: dict[str, int] = {}
    for message in messages:
        if message.role == "assistant":
            calls = [block for block in message.blocks if block.kind == "tool_use"]
            order |= {str(block.body.get("id")): len(order) + at for at, block in enumerate(calls)}
        elif message.role == "user" and (results := _results(message, order)):
            planned = [PlannedToolCall(str(call.body["name"]), call.body["input"]) for call in calls]
            found.append(_Round(planned, results))
    return found


def _results(message: ParsedMessage, order: Mapping[str, int]) -> list[ObservedResult]:
    blocks = [block for block in message.blocks if block.kind == "tool_result"]
    blocks.sort(key=lambda block: order.get(str(block.body.get("tool_use_id")), 0))
    return [
        ObservedResult(strip_reminders(extract_text(block)), bool(block.body.get("is_error")))
        for block in blocks
    ]


def _one_at_a_time(turn: CoderTurn) -> CoderTurn:
    """The same turn with one call in each step."""
    try:
        step = next(turn)
        while True:
            seen: list[ObservedResult] = []
            for at, call in enumerate(step.calls):
                seen += yield PlannedStep((call,), step.preface if at == 0 else "")
            step = turn.send(seen)
    except StopIteration as done:
        return str(done.value)


# ── a turn ───────────────────────────────────────────────────────────────────────────────────────


def _turn(prompt: UserPrompt, tools: ClientTools) -> CoderTurn:
    if prompt.follows_summary and not prompt.text:
        return _NOTHING_PENDING
    intents = parse_intents(prompt.text)
    if prompt.follows_summary:
        # Reading all files filled the context before, and would fill it again and again: it goes on only if
        # it is known which were read.
        reads_rest = intents.reads_all_files and bool(prompt.files_read)
        intents = replace(intents, reads_all_files=reads_rest, follows_summary=True)
    if intents.small_talk:
        return _SMALL_TALK[intents.small_talk]
    steps = list(_steps(intents, tools, prompt))
    left = _LATER if intents.plans and not (intents.changes or intents.runs) else ()
    keeps_list = intents.plans or len(steps) > 1
    report = yield from _work_through(steps, left, tools, keeps_list=keeps_list, asked=intents.plans)
    report += [_UNSUPPORTED_CHANGE] if intents.needs_unsupported_change else []
    return " ".join(filter(None, report)) or "I have no tool for this request."


def _work_through(
    steps: Sequence[NamedStep], left: Sequence[str], tools: ClientTools, *, keeps_list: bool, asked: bool
) -> Generator[PlannedStep, Sequence[ObservedResult], list[str]]:
    """Do the steps in order; with a list of them in the client, if it has one."""
    names = [*(name for name, _ in steps), *left]
    if keeps_list and "TodoWrite" in tools.names:
        return (yield from _work_with_todos(steps, names))
    if asked and {"TaskCreate", "TaskUpdate"} <= tools.names:
        return (yield from _work_with_tasks(steps, names))
    report: list[str] = []
    for _, part in steps:
        report.append((yield from part))
    return report


def _work_with_todos(
    steps: Sequence[NamedStep], names: Sequence[str]
) -> Generator[PlannedStep, Sequence[ObservedResult], list[str]]:
    report: list[str] = []
    for at, (_, part) in enumerate(steps):
        yield PlannedStep((_todos(steps, names, at),), "I'll keep a list of the steps." if at == 0 else "")
        report.append((yield from part))
    yield PlannedStep((_todos(steps, names, len(steps)),))
    return report


def _work_with_tasks(
    steps: Sequence[NamedStep], names: Sequence[str]
) -> Generator[PlannedStep, Sequence[ObservedResult], list[str]]:
    """The same for clients where each task is created, and updated by the number that it was given."""
    created = tuple(PlannedToolCall("TaskCreate", {"subject": name, "description": name}) for name in names)
    made = yield PlannedStep(created, "I'll keep a list of the steps.")
    numbers = [found[1] if (found := _TASK_NUMBER.search(seen.text)) else "" for seen in made]
    report: list[str] = []
    for number, (_, part) in zip(numbers, steps, strict=False):
        if number:
            yield PlannedStep((_task_update(number, "in_progress"),))
        report.append((yield from part))
        if number:
            yield PlannedStep((_task_update(number, "completed"),))
    return report


def _task_update(number: str, status: str) -> PlannedToolCall:
    return PlannedToolCall("TaskUpdate", {"taskId": number, "status": status})


def _todos(steps: Sequence[NamedStep], names: Sequence[str], at: int) -> PlannedToolCall:
    states = ["completed"] * at + (["in_progress"] if at < len(steps) else []) + ["pending"] * len(names)
    listed = [{"content": name, "status": state} for name, state in zip(names, states, strict=False)]
    return PlannedToolCall("TodoWrite", {"todos": listed})


def _steps(intents: Intents, tools: ClientTools, prompt: UserPrompt) -> Iterator[NamedStep]:
    """The steps for the intents, in order."""
    if intents.recalls and "recall" in tools.names and intents.words:
        yield "Search the history", recall(intents, prompt.text)
    elif intents.delegates_search and (agent := find_agent_tool(tools)):
        yield "Have the search agent look", delegate_search(intents, agent)
    elif intents.changes:
        if tools.editor and tools.writer:
            yield "Make the change", change(intents, tools)
    elif intents.lists_files:
        yield "List the files", list_files(tools)
    elif intents.reads_all_files:
        yield "Read the files", read_all(tools, prompt.files_read)
    elif not intents.runs or intents.needs_unsupported_change:
        yield "Find the places that matter", search_and_read(intents, tools)
    if intents.runs and tools.runner:
        yield "Run the command" if intents.command else "Run the tests", run(intents, tools)
