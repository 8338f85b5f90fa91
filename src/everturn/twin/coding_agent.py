"""A coder that follows rules, for clients that offer the tools of a coding agent over a real folder (TW-8).

It looks before it speaks: paths come from what Glob and Grep found, text to replace from what Read showed. A
turn is a generator that yields calls and is sent their results; each request plays it again from the start
of the turn, with the results that stand in the messages. So it needs no memory, and goes the same way each
time. It understands a few wishes (`intents.py`), and says so where it does not.
"""

import re
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from everturn.history.repair import NO_RESULT
from everturn.twin.coding_reports import (
    LINE,
    ObservedResult,
    describe_files,
    describe_hits,
    describe_missing_files,
    describe_no_hits,
    describe_outcome,
    join_names,
    parse_file_list,
    parse_numbered_lines,
    parse_recall_hits,
    pluralize,
    rank_files,
    shorten,
)
from everturn.twin.intents import Intents, parse_intents
from everturn.twin.request_text import extract_summarized_requests, extract_text, strip_reminders
from everturn.twin.values import ParsedMessage, ParsedRequest

# A turn ends, whatever the tools answer.
MAX_STEPS: Final = 30
_READS_AT_ONCE: Final = 3
_FILES_OF_ALL: Final = 24
_FILES_TO_CHANGE: Final = 5
_OF_PROGRAMS: Final = "This session continues"
_TESTERS: Final = (
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
_BEYOND_US: Final = (
    "I follow rules and cannot work out such a change by myself: tell me what to replace by what, which line "
    "to add to which file, or which command to run, and I will do it."
)
# Steps of a plan that are not ours to take yet.
_LATER: Final = ("Make the change", "Run the tests")


@dataclass(frozen=True, slots=True)
class PlannedToolCall:
    """One call that is wanted."""

    tool: str
    input: dict[str, Any]


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """Calls to make together, and what is said before them."""

    acts: tuple[PlannedToolCall, ...]
    preface: str = ""


CoderTurn = Generator[PlannedStep, Sequence[ObservedResult], str]


def can_handle(request: ParsedRequest) -> bool:
    """Whether it offers the tools of a coding agent in the shape that we know, and leaves us the choice."""
    choice = request.body.get("tool_choice")
    if isinstance(choice, dict) and choice != {"type": "auto"}:
        return False
    if request.body.get("output_config") or request.body.get("output_format"):
        return False
    known = {str(tool.body.get("name")): tool.body.get("input_schema") for tool in request.tools}
    asked = (("Read", "offset"), ("Glob", "pattern"), ("Grep", "output_mode"))
    return all(field in _properties(known.get(name)) for name, field in asked)


def _properties(schema: Any) -> dict[str, Any]:
    properties = schema.get("properties") if isinstance(schema, dict) else None
    return properties if isinstance(properties, dict) else {}


def plan_next_step(request: ParsedRequest) -> PlannedStep | str:
    """The next calls, or the answer. Calls whose results got lost are made again."""
    start = _turn_start(request.messages)
    asked = _said_by_person(request.messages[start]) if request.messages else ""
    names = frozenset(str(tool.body.get("name")) for tool in request.tools)
    turn = _turn(asked, names)
    results = [_results(message) for message in request.messages[start + 1 :] if message.role == "user"]
    try:
        move = next(turn)
        for seen in filter(None, results[:MAX_STEPS]):
            if not any(each.text == NO_RESULT for each in seen):
                move = turn.send(seen)
    except StopIteration as done:
        return str(done.value)
    return move if len(results) < MAX_STEPS else "I stopped here: this took more steps than it should."


# ── what stands in the messages ──────────────────────────────────────────────────────────────────


def _turn_start(messages: Sequence[ParsedMessage]) -> int:
    spoken = (at for at in range(len(messages) - 1, -1, -1) if _said_by_person(messages[at]))
    return next(spoken, 0)


def _said_by_person(message: ParsedMessage) -> str:
    """The words of a person; a summary stands for them where nothing was said since."""
    if message.role != "user":
        return ""
    texts = (str(block.body.get("text", "")) for block in message.blocks if block.kind == "text")
    spoken = [words for text in texts if (words := strip_reminders(text).strip())]
    since = [words for words in spoken if extract_summarized_requests(words) is None]
    return "\n".join(since or spoken)


def _last_asked(listed: Sequence[str]) -> str:
    """After a compaction in the middle of a turn, what the summary says was asked last."""
    return next((line for line in reversed(listed) if not line.startswith(_OF_PROGRAMS)), "")


def _results(message: ParsedMessage) -> list[ObservedResult]:
    blocks = (block for block in message.blocks if block.kind == "tool_result")
    return [
        ObservedResult(strip_reminders(extract_text(block)), bool(block.body.get("is_error")))
        for block in blocks
    ]


# ── a turn ───────────────────────────────────────────────────────────────────────────────────────


def _turn(said: str, tools: frozenset[str]) -> CoderTurn:
    before = extract_summarized_requests(said)
    asked = said if before is None else _last_asked(before)
    wishes = parse_intents(asked)
    if before is not None:
        # What filled the context once would fill it again.
        wishes = replace(wishes, reads_all_files=False)
    if wishes.small_talk:
        return _SMALL_TALK[wishes.small_talk]
    steps = list(_steps(wishes, tools, asked))
    left = _LATER if wishes.plans and not (wishes.changes or wishes.runs) else ()
    keeps_list = "TodoWrite" in tools and (wishes.plans or len(steps) > 1)
    told: list[str] = []
    for at, (_, part) in enumerate(steps):
        if keeps_list:
            yield PlannedStep((_todos(steps, left, at),), "I'll keep a list of the steps." if at == 0 else "")
        told.append((yield from part))
    if keeps_list:
        yield PlannedStep((_todos(steps, left, len(steps)),))
    told += [_BEYOND_US] if wishes.needs_unsupported_change else []
    return " ".join(filter(None, told)) or "I have no tool here for what you ask."


def _todos(steps: Sequence[tuple[str, CoderTurn]], left: Sequence[str], at: int) -> PlannedToolCall:
    names = [*(name for name, _ in steps), *left]
    states = ["completed"] * at + (["in_progress"] if at < len(steps) else []) + ["pending"] * len(names)
    listed = [{"content": name, "status": state} for name, state in zip(names, states, strict=False)]
    return PlannedToolCall("TodoWrite", {"todos": listed})


def _steps(wishes: Intents, tools: frozenset[str], asked: str) -> Iterator[tuple[str, CoderTurn]]:
    """What the wishes come to, in the order in which it makes sense."""
    if wishes.recalls and "recall" in tools and wishes.words:
        yield "Find what was said before", _recalling(wishes, asked)
    elif wishes.delegates_search and "Task" in tools:
        yield "Have the search agent look", _surveying(wishes)
    elif wishes.changes:
        if {"Write", "Edit"} <= tools:
            yield "Make the change", _changing(wishes)
    elif wishes.reads_all_files:
        yield "Read the files", _reading_all()
    elif not wishes.runs or wishes.needs_unsupported_change:
        yield "Find the places that matter", _looking(wishes)
    if wishes.runs and "Bash" in tools:
        yield "Run the command" if wishes.command else "Run the tests", _running(wishes)


def _recalling(wishes: Intents, asked: str) -> CoderTurn:
    query = " ".join(wishes.words[:3])
    (seen,) = yield PlannedStep(
        (PlannedToolCall("recall", {"query": query}),), "Let me look through what was said before."
    )
    found = [hit for hit in parse_recall_hits(seen) if hit != shorten(asked, 120)][:3]
    return f"This was said before: {'; '.join(found)}." if found else f"Nobody spoke of {query} before."


def _surveying(wishes: Intents) -> CoderTurn:
    subject = join_names([f"`{word}`" for word in (*wishes.words[:3], *wishes.paths[:2])] or ["the project"])
    prompt = f"Find where {subject} occur. Report paths, line numbers and what is missing."
    act = PlannedToolCall(
        "Task", {"description": "Search for " + subject.replace("`", "")[:40], "prompt": prompt}
    )
    (seen,) = yield PlannedStep((act,), "I'll have the search agent look into this.")
    return f"The search agent reports: {shorten(seen.text, 600)}"


def _reading_all() -> CoderTurn:
    (listed,) = yield PlannedStep(
        (PlannedToolCall("Glob", {"pattern": "**/*"}),), "I'll read the files one after another."
    )
    files = parse_file_list(listed)[:_FILES_OF_ALL]
    lines = 0
    for at in range(0, len(files), _READS_AT_ONCE):
        for seen in (yield PlannedStep(tuple(map(_read, files[at : at + _READS_AT_ONCE])))):
            lines += len(LINE.findall(seen.text))
    if not files:
        return "There are no files here yet."
    read = pluralize(len(files), "file")
    return f"I read {read} with {lines:,} lines in all; among them {join_names(files[:5])}."


def _looking(wishes: Intents) -> CoderTurn:
    """Files that were named first, then those with a word in them, then those with a word in their names."""
    files = yield from _named(wishes)
    hits, word = yield from _searched(wishes.words[:3])
    chosen = list(dict.fromkeys([*files, *hits]))[:_READS_AT_ONCE]
    told = [
        describe_hits(hits, word) or describe_no_hits(wishes.words[:3]),
        describe_missing_files(wishes, files),
    ]
    if not chosen:
        chosen = yield from _at_large(wishes.words[:3])
    if not chosen:
        return " ".join(filter(None, [*told, "There are no files here that I could look at."]))
    seen = yield PlannedStep(tuple(map(_read, chosen)), f"Let me read {join_names(chosen)}.")
    return " ".join(filter(None, [*told, describe_files(chosen, seen, word)]))


def _searched(
    words: Sequence[str],
) -> Generator[PlannedStep, Sequence[ObservedResult], tuple[list[str], str]]:
    """Files with one of the words, and which word that was."""
    for word in words:
        act = PlannedToolCall("Grep", {"pattern": re.escape(word), "-i": True, "head_limit": 20})
        (seen,) = yield PlannedStep((act,), f"Let me search for {word}." if word == words[0] else "")
        if files := parse_file_list(seen):
            return files, word
    return [], ""


def _named(wishes: Intents) -> Generator[PlannedStep, Sequence[ObservedResult], list[str]]:
    """The files that were named, where they really are."""
    found: list[str] = []
    for path in wishes.paths[:_READS_AT_ONCE]:
        pattern = path.lstrip("/~.") if "/" in path else f"**/{path}"
        (seen,) = yield PlannedStep((PlannedToolCall("Glob", {"pattern": pattern}),), f"Let me find {path}.")
        found += parse_file_list(seen)[:1]
    return found


def _at_large(words: Sequence[str]) -> Generator[PlannedStep, Sequence[ObservedResult], list[str]]:
    """Without a better idea: files with a word in their names, or those that say most about a project."""
    (listed,) = yield PlannedStep((PlannedToolCall("Glob", {"pattern": "**/*"}),), "Let me see what is here.")
    files = rank_files(parse_file_list(listed))
    by_name = [path for path in files if any(word.lower() in path.lower() for word in words)]
    return (by_name or files)[:2]


def _changing(wishes: Intents) -> CoderTurn:
    if wishes.new_file:
        content = wishes.content or f"# {wishes.new_file}\n"
        content += "" if content.endswith("\n") else "\n"
        act = PlannedToolCall("Write", {"file_path": wishes.new_file, "content": content})
        (seen,) = yield PlannedStep((act,), f"I'll write {wishes.new_file}.")
        return describe_outcome(
            seen, f"I wrote {wishes.new_file} ({pluralize(content.count(chr(10)), 'line')})."
        )
    if wishes.replacement:
        return (yield from _swapping(*wishes.replacement, wishes))
    return (yield from _adding(wishes))


def _swapping(old: str, new: str, wishes: Intents) -> CoderTurn:
    files = yield from _named(wishes)
    if not files:
        act = PlannedToolCall("Grep", {"pattern": re.escape(old), "head_limit": 20})
        (seen,) = yield PlannedStep((act,), f"Let me find where {old} stands.")
        files = parse_file_list(seen)
    done: list[str] = []
    for path in files[:_FILES_TO_CHANGE]:
        (shown,) = yield PlannedStep((_read(path),))
        count = sum(line.count(old) for line in parse_numbered_lines(shown))
        if shown.failed or not count:
            continue
        edit = {"file_path": path, "old_string": old, "new_string": new} | (
            {"replace_all": True} if count > 1 else {}
        )
        (seen,) = yield PlannedStep((PlannedToolCall("Edit", edit),), f"I'll change it in {path}.")
        if seen.failed:
            return describe_outcome(seen, "")
        done.append(path)
    if not done:
        return f"I found no place where {old} stands exactly like this, so nothing was changed."
    left = (
        f" {pluralize(len(files) - len(done), 'file')} more may have it."
        if len(files) > _FILES_TO_CHANGE
        else ""
    )
    return f"I replaced {old} by {new} in {join_names(done)}.{left}"


def _adding(wishes: Intents) -> CoderTurn:
    """A line at the end of a file, fastened to the last lines that are in it only once."""
    files = yield from _named(wishes)
    if not files:
        return "I could not tell which file the line belongs to; name it with its ending, such as notes.md."
    path = files[0]
    (shown,) = yield PlannedStep((_read(path),))
    lines = parse_numbered_lines(shown)
    end = next((lines[-n:] for n in range(1, len(lines) + 1) if _is_unique(lines[-n:], lines)), [])
    if not end:
        (seen,) = yield PlannedStep(
            (PlannedToolCall("Write", {"file_path": path, "content": wishes.line + "\n"}),)
        )
        return describe_outcome(seen, f"I wrote the line into {path}, which was empty.")
    old = "\n".join(end)
    edit = {"file_path": path, "old_string": old, "new_string": f"{old}\n{wishes.line}"}
    (seen,) = yield PlannedStep((PlannedToolCall("Edit", edit),), f"I'll add it to {path}.")
    return describe_outcome(seen, f"I added the line at the end of {path}.")


def _is_unique(end: Sequence[str], lines: Sequence[str]) -> bool:
    text = "\n".join(end)
    return bool(text.strip()) and "\n".join(lines).count(text) == 1


def _running(wishes: Intents) -> CoderTurn:
    command = wishes.command
    if not command:
        names = "{" + ",".join(name for name, _ in _TESTERS) + "}"
        (listed,) = yield PlannedStep(
            (PlannedToolCall("Glob", {"pattern": names}),), "Let me see how the tests are run here."
        )
        at_hand = {path.rpartition("/")[2] for path in parse_file_list(listed)}
        command = next((run for name, run in _TESTERS if name in at_hand), "python3 -m pytest -q")
    (seen,) = yield PlannedStep((PlannedToolCall("Bash", {"command": command}),), f"I'll run {command}.")
    if seen.failed:
        return describe_outcome(seen, "")
    lines = [line.strip() for line in seen.text.splitlines() if line.strip()]
    went = "failed" if seen.text.startswith("Exit code") else "ran"
    return (
        f"`{command}` {went}; its last line was: {shorten(lines[-1], 160)}"
        if lines
        else f"`{command}` {went}."
    )


def _read(path: str) -> PlannedToolCall:
    return PlannedToolCall("Read", {"file_path": path})
