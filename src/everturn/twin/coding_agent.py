"""A rule-based coding agent, for clients that offer coding tools over a real folder (TW-8).

Paths come from the results of Glob and Grep, text to replace from the results of Read. A turn is a generator
that yields tool calls and receives their results. Each request runs it again from the start of the turn, with
the results in the messages, so it stores no state and gives equal replies to equal requests. It recognizes a
few intents (`intents.py`), and says so if it cannot make a change.
"""

import re
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from everturn.history.repair import NO_RESULT
from everturn.twin.intents import Intents, parse_intents
from everturn.twin.json_values import as_object
from everturn.twin.request_text import (
    extract_summarized_requests,
    extract_text,
    find_paths,
    strip_reminders,
)
from everturn.twin.values import ParsedMessage, ParsedRequest

# A turn ends after this many steps, whatever the tools return.
MAX_STEPS: Final = 30
_MAX_PARALLEL_READS: Final = 3
_MAX_FILES_READ: Final = 24
_MAX_FILES_CHANGED: Final = 5
# How a client's own message after a compaction starts; it is not a request of the user.
_CONTINUATION: Final = "This session continues"
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
# A line in a result of Read, with its number.
_NUMBERED_LINE: Final = re.compile(r"^ *(\d+)\t(.*)$", re.MULTILINE)
_DEFINES: Final = re.compile(r"\s*(?:export |async |public |pub )?(?:def|class|function|func|fn) (\w+)")
# The first line of a recall hit, with the role. The text follows in the next lines.
_HIT: Final = re.compile(r"^\d+\. ([^,\n]+).* record [\w-]+$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class PlannedToolCall:
    """One tool call to make."""

    tool: str
    input: dict[str, Any]


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """Tool calls to make in parallel, and the text before them."""

    calls: tuple[PlannedToolCall, ...]
    preface: str = ""


@dataclass(frozen=True, slots=True)
class ObservedResult:
    """The result of a tool call."""

    text: str
    failed: bool = False


CoderTurn = Generator[PlannedStep, Sequence[ObservedResult], str]


def can_handle(request: ParsedRequest) -> bool:
    """Whether the request offers coding tools with known inputs, and does not force a tool or a format."""
    if request.get_object("tool_choice") not in ({}, {"type": "auto"}):
        return False
    if request.body.get("output_config") or request.body.get("output_format"):
        return False
    known = {str(tool.body.get("name")): tool.body.get("input_schema") for tool in request.tools}
    asked = (("Read", "offset"), ("Glob", "pattern"), ("Grep", "output_mode"))
    return all(field in _properties(known.get(name)) for name, field in asked)


def _properties(schema: Any) -> dict[str, Any]:
    return as_object(as_object(schema).get("properties"))


def plan_next_step(request: ParsedRequest) -> PlannedStep | str:
    """The next calls, or the final text. Calls whose results were lost are repeated."""
    start = _turn_start(request.messages)
    asked = _user_text(request.messages[start]) if request.messages else ""
    names = frozenset(str(tool.body.get("name")) for tool in request.tools)
    turn = _turn(asked, names)
    results = [_results(message) for message in request.messages[start + 1 :] if message.role == "user"]
    try:
        step = next(turn)
        for seen in filter(None, results[:MAX_STEPS]):
            if not any(each.text == NO_RESULT for each in seen):
                step = turn.send(seen)
    except StopIteration as done:
        return str(done.value)
    return step if len(results) < MAX_STEPS else "I stopped here: this took too many steps."


# ── reading the messages ─────────────────────────────────────────────────────────────────────────


def _turn_start(messages: Sequence[ParsedMessage]) -> int:
    prompts = (at for at in range(len(messages) - 1, -1, -1) if _user_text(messages[at]))
    return next(prompts, 0)


def _user_text(message: ParsedMessage) -> str:
    """The user's text in a message; a session summary only if there is nothing else."""
    if message.role != "user":
        return ""
    texts = (str(block.body.get("text", "")) for block in message.blocks if block.kind == "text")
    found = [part for text in texts if (part := strip_reminders(text).strip())]
    since = [part for part in found if extract_summarized_requests(part) is None]
    return "\n".join(since or found)


def _last_listed_request(listed: Sequence[str]) -> str:
    """After a compaction in the middle of a turn: the last request that the summary lists."""
    return next((line for line in reversed(listed) if not line.startswith(_CONTINUATION)), "")


def _results(message: ParsedMessage) -> list[ObservedResult]:
    blocks = (block for block in message.blocks if block.kind == "tool_result")
    return [
        ObservedResult(strip_reminders(extract_text(block)), bool(block.body.get("is_error")))
        for block in blocks
    ]


# ── a turn ───────────────────────────────────────────────────────────────────────────────────────


def _turn(prompt: str, tools: frozenset[str]) -> CoderTurn:
    before = extract_summarized_requests(prompt)
    asked = prompt if before is None else _last_listed_request(before)
    intents = parse_intents(asked)
    if before is not None:
        # Reading all files filled the context before, and would fill it again.
        intents = replace(intents, reads_all_files=False)
    if intents.small_talk:
        return _SMALL_TALK[intents.small_talk]
    steps = list(_steps(intents, tools, asked))
    left = _LATER if intents.plans and not (intents.changes or intents.runs) else ()
    keeps_list = "TodoWrite" in tools and (intents.plans or len(steps) > 1)
    report: list[str] = []
    for at, (_, part) in enumerate(steps):
        if keeps_list:
            yield PlannedStep((_todos(steps, left, at),), "I'll keep a list of the steps." if at == 0 else "")
        report.append((yield from part))
    if keeps_list:
        yield PlannedStep((_todos(steps, left, len(steps)),))
    report += [_UNSUPPORTED_CHANGE] if intents.needs_unsupported_change else []
    return " ".join(filter(None, report)) or "I have no tool for this request."


def _todos(steps: Sequence[tuple[str, CoderTurn]], left: Sequence[str], at: int) -> PlannedToolCall:
    names = [*(name for name, _ in steps), *left]
    states = ["completed"] * at + (["in_progress"] if at < len(steps) else []) + ["pending"] * len(names)
    listed = [{"content": name, "status": state} for name, state in zip(names, states, strict=False)]
    return PlannedToolCall("TodoWrite", {"todos": listed})


def _steps(intents: Intents, tools: frozenset[str], asked: str) -> Iterator[tuple[str, CoderTurn]]:
    """The steps for the intents, in order."""
    if intents.recalls and "recall" in tools and intents.words:
        yield "Search the history", _recall(intents, asked)
    elif intents.delegates_search and "Task" in tools:
        yield "Have the search agent look", _delegate_search(intents)
    elif intents.changes:
        if {"Write", "Edit"} <= tools:
            yield "Make the change", _change(intents)
    elif intents.reads_all_files:
        yield "Read the files", _read_all()
    elif not intents.runs or intents.needs_unsupported_change:
        yield "Find the places that matter", _search_and_read(intents)
    if intents.runs and "Bash" in tools:
        yield "Run the command" if intents.command else "Run the tests", _run(intents)


def _recall(intents: Intents, asked: str) -> CoderTurn:
    query = " ".join(intents.words[:3])
    (seen,) = yield PlannedStep((PlannedToolCall("recall", {"query": query}),), "Let me search the history.")
    found = [hit for hit in _parse_recall_hits(seen) if hit != _shorten(asked, 120)][:3]
    return (
        f"I found this in the history: {'; '.join(found)}."
        if found
        else f"I found nothing about {query} in the history."
    )


def _delegate_search(intents: Intents) -> CoderTurn:
    subject = _join_names(
        [f"`{word}`" for word in (*intents.words[:3], *intents.paths[:2])] or ["the project"]
    )
    prompt = f"Find where {subject} occur. Report paths, line numbers and what is missing."
    call = PlannedToolCall(
        "Task", {"description": "Search for " + subject.replace("`", "")[:40], "prompt": prompt}
    )
    (seen,) = yield PlannedStep((call,), "I'll have the search agent look into this.")
    return f"The search agent reports: {_shorten(seen.text, 600)}"


def _read_all() -> CoderTurn:
    (listed,) = yield PlannedStep(
        (PlannedToolCall("Glob", {"pattern": "**/*"}),), "I'll read the files one after another."
    )
    files = _parse_file_list(listed)[:_MAX_FILES_READ]
    lines = 0
    for at in range(0, len(files), _MAX_PARALLEL_READS):
        for seen in (yield PlannedStep(tuple(map(_read, files[at : at + _MAX_PARALLEL_READS])))):
            lines += len(_NUMBERED_LINE.findall(seen.text))
    if not files:
        return "There are no files here yet."
    read = _pluralize(len(files), "file")
    return f"I read {read} with {lines:,} lines in all; among them {_join_names(files[:5])}."


def _search_and_read(intents: Intents) -> CoderTurn:
    """Read named files first, then files that contain a word, then files with a word in their names."""
    files = yield from _find_named(intents)
    hits, word = yield from _search(intents.words[:3])
    chosen = list(dict.fromkeys([*files, *hits]))[:_MAX_PARALLEL_READS]
    report = [
        _describe_hits(hits, word) or _describe_no_hits(intents.words[:3]),
        _describe_missing_files(intents, files),
    ]
    if not chosen:
        chosen = yield from _find_any(intents.words[:3])
    if not chosen:
        return " ".join(filter(None, [*report, "There are no files here that I could look at."]))
    seen = yield PlannedStep(tuple(map(_read, chosen)), f"Let me read {_join_names(chosen)}.")
    return " ".join(filter(None, [*report, _describe_files(chosen, seen, word)]))


def _search(
    words: Sequence[str],
) -> Generator[PlannedStep, Sequence[ObservedResult], tuple[list[str], str]]:
    """The files that contain the first word with a match, and that word."""
    for word in words:
        call = PlannedToolCall("Grep", {"pattern": re.escape(word), "-i": True, "head_limit": 20})
        (seen,) = yield PlannedStep((call,), f"Let me search for {word}." if word == words[0] else "")
        if files := _parse_file_list(seen):
            return files, word
    return [], ""


def _find_named(intents: Intents) -> Generator[PlannedStep, Sequence[ObservedResult], list[str]]:
    """The files that the prompt names, as Glob finds them."""
    found: list[str] = []
    for path in intents.paths[:_MAX_PARALLEL_READS]:
        pattern = path.lstrip("/~.") if "/" in path else f"**/{path}"
        (seen,) = yield PlannedStep((PlannedToolCall("Glob", {"pattern": pattern}),), f"Let me find {path}.")
        found += _parse_file_list(seen)[:1]
    return found


def _find_any(words: Sequence[str]) -> Generator[PlannedStep, Sequence[ObservedResult], list[str]]:
    """A fallback: files with a word in their names, or the files that describe a project best."""
    (listed,) = yield PlannedStep((PlannedToolCall("Glob", {"pattern": "**/*"}),), "Let me see what is here.")
    files = _rank_files(_parse_file_list(listed))
    by_name = [path for path in files if any(word.lower() in path.lower() for word in words)]
    return (by_name or files)[:2]


def _change(intents: Intents) -> CoderTurn:
    if intents.new_file:
        content = intents.content or f"# {intents.new_file}\n"
        content += "" if content.endswith("\n") else "\n"
        call = PlannedToolCall("Write", {"file_path": intents.new_file, "content": content})
        (seen,) = yield PlannedStep((call,), f"I'll write {intents.new_file}.")
        return _describe_outcome(
            seen, f"I wrote {intents.new_file} ({_pluralize(content.count(chr(10)), 'line')})."
        )
    if intents.replacement:
        return (yield from _replace_text(*intents.replacement, intents))
    return (yield from _add_line(intents))


def _replace_text(old: str, new: str, intents: Intents) -> CoderTurn:
    files = yield from _find_named(intents)
    if not files:
        call = PlannedToolCall("Grep", {"pattern": re.escape(old), "head_limit": 20})
        (seen,) = yield PlannedStep((call,), f"Let me find where {old} occurs.")
        files = _parse_file_list(seen)
    done: list[str] = []
    for path in files[:_MAX_FILES_CHANGED]:
        (shown,) = yield PlannedStep((_read(path),))
        count = sum(line.count(old) for line in _parse_numbered_lines(shown))
        if shown.failed or not count:
            continue
        edit = {"file_path": path, "old_string": old, "new_string": new} | (
            {"replace_all": True} if count > 1 else {}
        )
        (seen,) = yield PlannedStep((PlannedToolCall("Edit", edit),), f"I'll change it in {path}.")
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


def _add_line(intents: Intents) -> CoderTurn:
    """Add a line at the end of a file, with an edit of the last lines that are unique in it."""
    files = yield from _find_named(intents)
    if not files:
        return (
            "I could not tell which file the line belongs in; name it with its extension, such as notes.md."
        )
    path = files[0]
    (shown,) = yield PlannedStep((_read(path),))
    lines = _parse_numbered_lines(shown)
    ends = (lines[-n:] for n in range(1, len(lines) + 1))
    end = next((end for end in ends if _is_unique(end, lines)), None)
    if end is None:
        (seen,) = yield PlannedStep(
            (PlannedToolCall("Write", {"file_path": path, "content": intents.line + "\n"}),)
        )
        return _describe_outcome(seen, f"I wrote the line into {path}, which was empty.")
    old = "\n".join(end)
    edit = {"file_path": path, "old_string": old, "new_string": f"{old}\n{intents.line}"}
    (seen,) = yield PlannedStep((PlannedToolCall("Edit", edit),), f"I'll add it to {path}.")
    return _describe_outcome(seen, f"I added the line at the end of {path}.")


def _is_unique(end: Sequence[str], lines: Sequence[str]) -> bool:
    text = "\n".join(end)
    return bool(text.strip()) and "\n".join(lines).count(text) == 1


def _run(intents: Intents) -> CoderTurn:
    command = intents.command
    if not command:
        names = "{" + ",".join(name for name, _ in _TEST_COMMANDS) + "}"
        (listed,) = yield PlannedStep(
            (PlannedToolCall("Glob", {"pattern": names}),), "Let me see how the tests are run here."
        )
        present = {path.rpartition("/")[2] for path in _parse_file_list(listed)}
        command = next((run for name, run in _TEST_COMMANDS if name in present), "python3 -m pytest -q")
    (seen,) = yield PlannedStep((PlannedToolCall("Bash", {"command": command}),), f"I'll run {command}.")
    if seen.failed:
        return _describe_outcome(seen, "")
    lines = [line.strip() for line in seen.text.splitlines() if line.strip()]
    result = "failed" if seen.text.startswith("Exit code") else "ran"
    return (
        f"`{command}` {result}; its last line was: {_shorten(lines[-1], 160)}"
        if lines
        else f"`{command}` {result}."
    )


def _read(path: str) -> PlannedToolCall:
    return PlannedToolCall("Read", {"file_path": path})


# ── reading results and reporting ────────────────────────────────────────────────────────────────


def _describe_hits(hits: Sequence[str], word: str) -> str:
    return f"I searched for {word} and found it in {_pluralize(len(hits), 'file')}." if hits else ""


def _describe_files(files: Sequence[str], seen: Sequence[ObservedResult], word: str) -> str:
    return " ".join(_describe_file(path, shown, word) for path, shown in zip(files, seen, strict=False))


def _describe_file(path: str, shown: ObservedResult, word: str) -> str:
    found = _NUMBERED_LINE.findall(shown.text)
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
    missing = [path for path in intents.paths if path.rpartition("/")[2] not in names]
    return f"I could not find {_join_names(missing)} here." if missing and not intents.new_file else ""


def _describe_outcome(seen: ObservedResult, success: str) -> str:
    return f"That failed: {_shorten(seen.text)}" if seen.failed else success


def _shorten(text: str, max_chars: int = 300) -> str:
    line = " ".join(text.split())
    return line if len(line) <= max_chars else line[:max_chars].rpartition(" ")[0] + " …"


def _pluralize(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _join_names(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1]))) if names else "nothing"


def _parse_file_list(seen: ObservedResult) -> list[str]:
    """The paths in a result of Glob or Grep, one per line. Notes in brackets are skipped."""
    if seen.failed or seen.text.startswith(("No file matches", "Nothing matches")):
        return []
    return [line for line in seen.text.splitlines() if line.strip() and not line.startswith("[")]


def _parse_numbered_lines(shown: ObservedResult) -> list[str]:
    return [line for _, line in _NUMBERED_LINE.findall(shown.text)]


def _rank_files(files: Sequence[str]) -> list[str]:
    """README files first, then files with a known extension, then files near the root."""

    def rank(path: str) -> tuple[bool, bool, int, str]:
        name = path.rpartition("/")[2].lower()
        return not name.startswith("readme"), not find_paths(path), path.count("/"), path

    return sorted(files, key=rank)


def _parse_recall_hits(seen: ObservedResult) -> list[str]:
    """The texts of user and assistant in a recall result, without the marks around the search words."""
    _, *parts = _HIT.split(seen.text)
    texts = (text for who, text in zip(parts[::2], parts[1::2], strict=True) if who in ("user", "assistant"))
    return [_shorten(text.replace("«", "").replace("»", ""), 120) for text in texts]
