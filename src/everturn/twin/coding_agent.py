"""A rule-based coding agent, for clients that offer coding tools over a real folder (TW-8).

Paths come from the results of searches, text to replace from the results of reads. A turn is a generator that
yields tool calls and receives their results. Each request runs it again from the start of the turn, with the
results in the messages, so it stores no state and gives equal replies to equal requests. It recognizes a few
intents (`intents.py`), and says so if it cannot make a change. It changes a file or runs a command only if
the user asked for exactly that; otherwise it only reads.
"""

import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Final, NamedTuple

from everturn.history.repair import NO_RESULT
from everturn.twin.client_tools import (
    ClientTools,
    ObservedResult,
    PlannedToolCall,
    find_client_tools,
    parse_file_list,
    parse_numbered_lines,
)
from everturn.twin.intents import Intents, parse_intents
from everturn.twin.request_text import extract_text, find_paths
from everturn.twin.tool_loading import find_loaded_tools
from everturn.twin.user_prompts import UserPrompt, find_prompt, strip_reminders
from everturn.twin.values import ParsedBlock, ParsedMessage, ParsedRequest

# A turn ends after this many steps, whatever the tools return.
MAX_STEPS: Final = 30
_MAX_PARALLEL_READS: Final = 3
_MAX_FILES_READ: Final = 24
_MAX_FILES_CHANGED: Final = 5
_TEST_COMMANDS: Final = (
    ("package.json", "npm test"),
    ("Cargo.toml", "cargo test"),
    ("go.mod", "go test ./..."),
    ("pyproject.toml", "python3 -m pytest -q"),
    ("Makefile", "make test"),
)
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
_DEFINES: Final = re.compile(r"\s*(?:export |async |public |pub )?(?:def|class|function|func|fn) (\w+)")
_TASK_NUMBER: Final = re.compile(r"#(\d{1,9})\b")
_NOTHING_PENDING: Final = (
    "The earlier work is summarized above, and nothing is pending. What should I look at next?"
)


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """Tool calls to make in parallel, and the text before them."""

    calls: tuple[PlannedToolCall, ...]
    preface: str = ""


class _Round(NamedTuple):
    """The tool calls of one reply, and their results."""

    calls: list[PlannedToolCall]
    results: list[ObservedResult]


CoderTurn = Generator[PlannedStep, Sequence[ObservedResult], str]
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
        yield "Search the history", _recall(intents, prompt.text)
    elif intents.delegates_search and (agent := _find_agent_tool(tools)):
        yield "Have the search agent look", _delegate_search(intents, agent)
    elif intents.changes:
        if tools.editor and tools.writer:
            yield "Make the change", _change(intents, tools)
    elif intents.lists_files:
        yield "List the files", _list_files(tools)
    elif intents.reads_all_files:
        yield "Read the files", _read_all(tools, prompt.files_read)
    elif not intents.runs or intents.needs_unsupported_change:
        yield "Find the places that matter", _search_and_read(intents, tools)
    if intents.runs and tools.runner:
        yield "Run the command" if intents.command else "Run the tests", _run(intents, tools)


def _recall(intents: Intents, asked: str) -> CoderTurn:
    query = " ".join(intents.words[:3])
    (seen,) = yield PlannedStep((PlannedToolCall("recall", {"query": query}),), "Let me search the history.")
    found = [hit for hit in _parse_recall_hits(seen) if hit != _shorten(asked, 120)][:3]
    return (
        f"I found this in the history: {'; '.join(found)}."
        if found
        else f"I found nothing about {query} in the history."
    )


def _find_agent_tool(tools: ClientTools) -> str | None:
    """The tool that starts a sub-agent. Claude Code renamed it."""
    return next((name for name in ("Agent", "Task") if name in tools.names), None)


def _delegate_search(intents: Intents, tool: str) -> CoderTurn:
    subject = _join_names(
        [f"`{word}`" for word in (*intents.words[:3], *intents.paths[:2])] or ["the project"]
    )
    prompt = f"Find where {subject} occur. Report paths, line numbers and what is missing."
    call = PlannedToolCall(
        tool, {"description": "Search for " + subject.replace("`", "")[:40], "prompt": prompt}
    )
    (seen,) = yield PlannedStep((call,), "I'll have the search agent look into this.")
    return f"The search agent reports: {_shorten(seen.text, 600)}"


def _list_files(tools: ClientTools) -> CoderTurn:
    (listed,) = yield PlannedStep((tools.find(),), "Let me see what is here.")
    files = parse_file_list(listed)
    if not files:
        return "There are no files here."
    rest = f", and {len(files) - _MAX_FILES_READ:,} more" if len(files) > _MAX_FILES_READ else ""
    return f"I found {_pluralize(len(files), 'file')}: {', '.join(files[:_MAX_FILES_READ])}{rest}."


def _read_all(tools: ClientTools, before: Sequence[str]) -> CoderTurn:
    """Read the files; those that were read `before` a summary are not read again."""
    about = (
        "I'll go on with the files that I have not read."
        if before
        else "I'll read the files one after another."
    )
    (listed,) = yield PlannedStep((tools.find(),), about)
    files = parse_file_list(listed)[:_MAX_FILES_READ]
    left = [path for path in files if path not in before]
    lines = 0
    for at in range(0, len(left), _MAX_PARALLEL_READS):
        for seen in (yield PlannedStep(tuple(map(tools.read, left[at : at + _MAX_PARALLEL_READS])))):
            lines += len(parse_numbered_lines(seen))
    if not files:
        return "There are no files here yet."
    read = f"I read {_pluralize(len(files), 'file')}"
    if before:
        earlier = len(files) - len(left)
        return f"{read}, {earlier:,} of them before the summary; among them {_join_names(files[:5])}."
    return f"{read} with {lines:,} lines in all; among them {_join_names(files[:5])}."


def _search_and_read(intents: Intents, tools: ClientTools) -> CoderTurn:
    """Read named files first, then files that contain a word, then files with a word in their names."""
    files = yield from _find_named(intents, tools)
    hits, word = yield from _search(intents.words[:3], tools)
    named = list(dict.fromkeys(files))
    chosen = list(dict.fromkeys([*named, *hits]))[: max(len(named), _MAX_PARALLEL_READS)]
    report = [
        _describe_hits(hits, word) or _describe_no_hits(intents.words[:3]),
        _describe_missing_files(intents, files),
    ]
    if not chosen:
        chosen = yield from _find_any(intents.words[:3], tools)
    if not chosen:
        return " ".join(filter(None, [*report, "There are no files here that I could look at."]))
    seen: list[ObservedResult] = []
    for at in range(0, len(chosen), _MAX_PARALLEL_READS):
        some = chosen[at : at + _MAX_PARALLEL_READS]
        seen += yield PlannedStep(tuple(map(tools.read, some)), f"Let me read {_join_names(some)}.")
    return " ".join(filter(None, [*report, _describe_files(chosen, seen, word)]))


def _search(
    words: Sequence[str], tools: ClientTools
) -> Generator[PlannedStep, Sequence[ObservedResult], tuple[list[str], str]]:
    """The files that contain the first word with a match, and that word."""
    for word in words:
        call = tools.search(word, ignores_case=True)
        (seen,) = yield PlannedStep((call,), f"Let me search for {word}." if word == words[0] else "")
        if files := parse_file_list(seen):
            return files, word
    return [], ""


def _find_named(
    intents: Intents, tools: ClientTools
) -> Generator[PlannedStep, Sequence[ObservedResult], list[str]]:
    """The files that the prompt names, as a search by name finds them."""
    found: list[str] = []
    for path in intents.paths[:_MAX_FILES_READ]:
        pattern = path.lstrip("/~.") if "/" in path else f"**/{path}"
        (seen,) = yield PlannedStep((tools.find(pattern),), f"Let me find {path}.")
        found += parse_file_list(seen)[:1]
    return found


def _find_any(
    words: Sequence[str], tools: ClientTools
) -> Generator[PlannedStep, Sequence[ObservedResult], list[str]]:
    """A fallback: files with a word in their names, or the files that describe a project best."""
    (listed,) = yield PlannedStep((tools.find(),), "Let me see what is here.")
    files = _rank_files(parse_file_list(listed))
    by_name = [path for path in files if any(word.lower() in path.lower() for word in words)]
    return (by_name or files)[:2]


def _change(intents: Intents, tools: ClientTools) -> CoderTurn:
    if intents.new_file:
        return (yield from _write_file(intents, tools))
    if intents.replacement:
        return (yield from _replace_text(*intents.replacement, intents, tools))
    return (yield from _add_line(intents, tools))


def _write_file(intents: Intents, tools: ClientTools) -> CoderTurn:
    path = intents.new_file
    pattern = path.lstrip("/~.") if "/" in path else f"**/{path}"
    (seen,) = yield PlannedStep((tools.find(pattern),), f"Let me see whether {path} is there already.")
    if present := [each for each in parse_file_list(seen) if each == path or each.endswith(f"/{path}")]:
        return (
            f"{present[0]} is there already, and I do not overwrite files: delete it, or choose another name."
        )
    content = intents.content or f"# {path}\n"
    content += "" if content.endswith("\n") else "\n"
    (seen,) = yield PlannedStep((tools.write(path, content),), f"I'll write {path}.")
    return _describe_outcome(seen, f"I wrote {path} ({_pluralize(content.count(chr(10)), 'line')}).")


def _replace_text(old: str, new: str, intents: Intents, tools: ClientTools) -> CoderTurn:
    files = yield from _find_named(intents, tools)
    if not files:
        (seen,) = yield PlannedStep((tools.search(old),), f"Let me find where {old} occurs.")
        files = parse_file_list(seen)
    done: list[str] = []
    for path in files[:_MAX_FILES_CHANGED]:
        (shown,) = yield PlannedStep((tools.read(path),))
        count = sum(line.count(old) for _, line in parse_numbered_lines(shown))
        if shown.failed or not count:
            continue
        edit = tools.edit(path, old, new, every=count > 1)
        (seen,) = yield PlannedStep((edit,), f"I'll change it in {path}.")
        if seen.failed:
            return _describe_outcome(seen, "")
        done.append(path)
    if not done:
        return f"I found no exact match for {old}, so I changed nothing."
    left = (
        f" {_pluralize(len(files) - len(done), 'file')} more may have it."
        if len(files) > _MAX_FILES_CHANGED
        else ""
    )
    return f"I replaced {old} by {new} in {_join_names(done)}.{left}"


def _add_line(intents: Intents, tools: ClientTools) -> CoderTurn:
    """Add a line at the end of a file, with an edit of the last lines that are unique in it."""
    files = yield from _find_named(intents, tools)
    if not files:
        return (
            "I could not tell which file the line belongs in; name it with its extension, such as notes.md."
        )
    path = files[0]
    (shown,) = yield PlannedStep((tools.read(path),))
    lines = [line for _, line in parse_numbered_lines(shown)]
    if intents.follows_summary and intents.line in lines:
        return f"The line is in {path} already."
    ends = (lines[-n:] for n in range(1, len(lines) + 1))
    end = next((end for end in ends if _is_unique(end, lines)), None)
    if end is None and not _is_empty_file(shown):
        return f"I could not find the end of {path}, so I changed nothing."
    if end is None:
        (seen,) = yield PlannedStep((tools.write(path, intents.line + "\n"),))
        return _describe_outcome(seen, f"I wrote the line into {path}, which was empty.")
    old = "\n".join(end)
    edit = tools.edit(path, old, f"{old}\n{intents.line}")
    (seen,) = yield PlannedStep((edit,), f"I'll add it to {path}.")
    return _describe_outcome(seen, f"I added the line at the end of {path}.")


def _is_empty_file(shown: ObservedResult) -> bool:
    """Whether a file was read and is empty. Clients say so in words of their own, or with no text."""
    lines = [line for _, line in parse_numbered_lines(shown) if line.strip()]
    said = shown.text.strip().lower()
    return not shown.failed and not lines and (not said or "empty" in said[:200])


def _is_unique(end: Sequence[str], lines: Sequence[str]) -> bool:
    text = "\n".join(end)
    return bool(text.strip()) and "\n".join(lines).count(text) == 1


def _run(intents: Intents, tools: ClientTools) -> CoderTurn:
    command = intents.command
    if command and intents.follows_summary:
        return f"I do not run `{command}` again after a compaction: it may have run before. Ask me to run it."
    if not command:
        names = [name for name, _ in _TEST_COMMANDS]
        (listed,) = yield PlannedStep((tools.find_at_root(names),), "Let me see how the tests are run here.")
        present = {path.rpartition("/")[2] for path in parse_file_list(listed)}
        command = next((run for name, run in _TEST_COMMANDS if name in present), "python3 -m pytest -q")
    (seen,) = yield PlannedStep((tools.run(command),), f"I'll run {command}.")
    if seen.failed and not seen.text.startswith("Exit code"):
        return _describe_outcome(seen, "")
    lines = [line.strip() for line in seen.text.splitlines() if line.strip()]
    result = "failed" if seen.text.startswith("Exit code") else "ran"
    return (
        f"`{command}` {result}; its last line was: {_shorten(lines[-1], 160)}"
        if lines
        else f"`{command}` {result}."
    )


# ── reading results and reporting ────────────────────────────────────────────────────────────────


def _describe_hits(hits: Sequence[str], word: str) -> str:
    return f"I searched for {word} and found it in {_pluralize(len(hits), 'file')}." if hits else ""


def _describe_files(files: Sequence[str], seen: Sequence[ObservedResult], word: str) -> str:
    return " ".join(_describe_file(path, shown, word) for path, shown in zip(files, seen, strict=False))


def _describe_file(path: str, shown: ObservedResult, word: str) -> str:
    found = parse_numbered_lines(shown)
    if shown.failed or not found:
        return f"I could not read any line of {path}."
    number, line = _most_relevant(found, word)
    names = list(dict.fromkeys(match[1] for _, each in found if (match := _DEFINES.match(each))))
    defines = f", and the file defines {_join_names(names[:4])}" if names else ""
    size = _pluralize(len(found), "line")
    return f"Of {path} I read {size}: line {number} is `{_shorten(line.strip(), 100)}`{defines}."


def _most_relevant(found: Sequence[tuple[str, str]], word: str) -> tuple[str, str]:
    """The most relevant line: one with the word, then one with a definition."""

    def rank(each: tuple[str, str]) -> tuple[bool, bool, bool]:
        line = each[1]
        return not (word and word.lower() in line.lower()), not _DEFINES.match(line), not line.strip()

    return min(found, key=rank)


def _describe_no_hits(words: Sequence[str]) -> str:
    return f"I searched for {_join_names(words)} and found nothing." if words else ""


def _describe_missing_files(intents: Intents, found: Sequence[str]) -> str:
    names = {path.rpartition("/")[2] for path in found}
    looked = intents.paths[:_MAX_FILES_READ]
    missing = [path for path in looked if path.rpartition("/")[2] not in names]
    told = f"I could not find {_join_names(missing)} here." if missing and not intents.new_file else ""
    left = len(intents.paths) - len(looked)
    rest = f"I looked only for the first {_MAX_FILES_READ} of the names." if left else ""
    return " ".join(filter(None, (told, rest)))


def _describe_outcome(seen: ObservedResult, success: str) -> str:
    return f"That failed: {_shorten(seen.text)}" if seen.failed else success


def _shorten(text: str, max_chars: int = 300) -> str:
    line = " ".join(text.split())
    return line if len(line) <= max_chars else line[:max_chars].rpartition(" ")[0] + " …"


def _pluralize(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _join_names(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1]))) if names else "nothing"


def _rank_files(files: Sequence[str]) -> list[str]:
    """README files first, then files with a known extension, then files near the root."""

    def rank(path: str) -> tuple[bool, bool, int, str]:
        name = path.rpartition("/")[2].lower()
        return not name.startswith("readme"), not find_paths(path), path.count("/"), path

    return sorted(files, key=rank)


def _parse_recall_hits(seen: ObservedResult) -> list[str]:
    """The texts of user and assistant in a recall result, without the marks around the search words."""
    hits: list[tuple[str, list[str]]] = []
    for line in seen.text.splitlines():
        if (who := _recall_role(line)) is not None:
            hits.append((who, []))
        elif hits:
            hits[-1][1].append(line)
    texts = ("\n".join(lines) for who, lines in hits if who in ("user", "assistant"))
    return [_shorten(text.replace("«", "").replace("»", ""), 120) for text in texts]


def _recall_role(line: str) -> str | None:
    """The role in the first line of a hit: `1. user, 2026-11-15, visible, record a-1`."""
    number, dot, rest = line.partition(". ")
    before, record, id = rest.rpartition(" record ")
    is_hit = dot and record and number.isdigit() and id and id.replace("-", "").replace("_", "").isalnum()
    return before.partition(",")[0] if is_hit else None
