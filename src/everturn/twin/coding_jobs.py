"""What the rule-based coding agent can do: search, read, change files, run a command, look into the history.

Each job is a generator that yields tool calls, receives their results and returns what it reports. Paths come
from the results of searches, text to replace from the results of reads.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Final

from everturn.twin.client_tools import (
    ClientTools,
    ObservedResult,
    PlannedToolCall,
    parse_file_list,
    parse_numbered_lines,
)
from everturn.twin.coding_reports import (
    describe_files,
    describe_hits,
    describe_no_hits,
    describe_outcome,
    join_names,
    pluralize,
    shorten,
)
from everturn.twin.intents import Intents
from everturn.twin.request_text import find_paths

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


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """Tool calls to make in parallel, and the text before them."""

    calls: tuple[PlannedToolCall, ...]
    preface: str = ""


CoderTurn = Generator[PlannedStep, Sequence[ObservedResult], str]


def recall(intents: Intents, asked: str) -> CoderTurn:
    query = " ".join(intents.words[:3])
    (seen,) = yield PlannedStep((PlannedToolCall("recall", {"query": query}),), "Let me search the history.")
    found = [hit for hit in parse_recall_hits(seen) if hit != shorten(asked, 120)][:3]
    return (
        f"I found this in the history: {'; '.join(found)}."
        if found
        else f"I found nothing about {query} in the history."
    )


def find_agent_tool(tools: ClientTools) -> str | None:
    """The tool that starts a sub-agent. Claude Code renamed it."""
    return next((name for name in ("Agent", "Task") if name in tools.names), None)


def delegate_search(intents: Intents, tool: str) -> CoderTurn:
    subject = join_names(
        [f"`{word}`" for word in (*intents.words[:3], *intents.paths[:2])] or ["the project"]
    )
    prompt = f"Find where {subject} occur. Report paths, line numbers and what is missing."
    call = PlannedToolCall(
        tool, {"description": "Search for " + subject.replace("`", "")[:40], "prompt": prompt}
    )
    (seen,) = yield PlannedStep((call,), "I'll have the search agent look into this.")
    return f"The search agent reports: {shorten(seen.text, 600)}"


def list_files(tools: ClientTools) -> CoderTurn:
    (listed,) = yield PlannedStep((tools.find(),), "Let me see what is here.")
    files = parse_file_list(listed)
    if not files:
        return "There are no files here."
    rest = f", and {len(files) - _MAX_FILES_READ:,} more" if len(files) > _MAX_FILES_READ else ""
    return f"I found {pluralize(len(files), 'file')}: {', '.join(files[:_MAX_FILES_READ])}{rest}."


def read_all(tools: ClientTools, before: Sequence[str]) -> CoderTurn:
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
    read = f"I read {pluralize(len(files), 'file')}"
    if before:
        earlier = len(files) - len(left)
        return f"{read}, {earlier:,} of them before the summary; among them {join_names(files[:5])}."
    return f"{read} with {lines:,} lines in all; among them {join_names(files[:5])}."


def search_and_read(intents: Intents, tools: ClientTools) -> CoderTurn:
    """Read named files first, then files that contain a word, then files with a word in their names."""
    files = yield from _find_named(intents, tools)
    hits, word = yield from _search(intents.words[:3], tools)
    named = list(dict.fromkeys(files))
    chosen = list(dict.fromkeys([*named, *hits]))[: max(len(named), _MAX_PARALLEL_READS)]
    report = [
        describe_hits(hits, word) or describe_no_hits(intents.words[:3]),
        _describe_missing_files(intents, files),
    ]
    if not chosen:
        chosen = yield from _find_any(intents.words[:3], tools)
    if not chosen:
        return " ".join(filter(None, [*report, "There are no files here that I could look at."]))
    seen: list[ObservedResult] = []
    for at in range(0, len(chosen), _MAX_PARALLEL_READS):
        some = chosen[at : at + _MAX_PARALLEL_READS]
        seen += yield PlannedStep(tuple(map(tools.read, some)), f"Let me read {join_names(some)}.")
    return " ".join(filter(None, [*report, describe_files(chosen, seen, word)]))


def _describe_missing_files(intents: Intents, found: Sequence[str]) -> str:
    names = {path.rpartition("/")[2] for path in found}
    looked = intents.paths[:_MAX_FILES_READ]
    missing = [path for path in looked if path.rpartition("/")[2] not in names]
    told = f"I could not find {join_names(missing)} here." if missing and not intents.new_file else ""
    left = len(intents.paths) - len(looked)
    rest = f"I looked only for the first {_MAX_FILES_READ} of the names." if left else ""
    return " ".join(filter(None, (told, rest)))


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


def change(intents: Intents, tools: ClientTools) -> CoderTurn:
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
    return describe_outcome(seen, f"I wrote {path} ({pluralize(content.count(chr(10)), 'line')}).")


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
            return describe_outcome(seen, "")
        done.append(path)
    if not done:
        return f"I found no exact match for {old}, so I changed nothing."
    left = (
        f" {pluralize(len(files) - len(done), 'file')} more may have it."
        if len(files) > _MAX_FILES_CHANGED
        else ""
    )
    return f"I replaced {old} by {new} in {join_names(done)}.{left}"


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
        return describe_outcome(seen, f"I wrote the line into {path}, which was empty.")
    old = "\n".join(end)
    edit = tools.edit(path, old, f"{old}\n{intents.line}")
    (seen,) = yield PlannedStep((edit,), f"I'll add it to {path}.")
    return describe_outcome(seen, f"I added the line at the end of {path}.")


def _is_empty_file(shown: ObservedResult) -> bool:
    """Whether a file was read and is empty. Clients say so in words of their own, or with no text."""
    lines = [line for _, line in parse_numbered_lines(shown) if line.strip()]
    said = shown.text.strip().lower()
    return not shown.failed and not lines and (not said or "empty" in said[:200])


def _is_unique(end: Sequence[str], lines: Sequence[str]) -> bool:
    text = "\n".join(end)
    return bool(text.strip()) and "\n".join(lines).count(text) == 1


def run(intents: Intents, tools: ClientTools) -> CoderTurn:
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
        return describe_outcome(seen, "")
    lines = [line.strip() for line in seen.text.splitlines() if line.strip()]
    result = "failed" if seen.text.startswith("Exit code") else "ran"
    return (
        f"`{command}` {result}; its last line was: {shorten(lines[-1], 160)}"
        if lines
        else f"`{command}` {result}."
    )


def _rank_files(files: Sequence[str]) -> list[str]:
    """README files first, then files with a known extension, then files near the root."""

    def rank(path: str) -> tuple[bool, bool, int, str]:
        name = path.rpartition("/")[2].lower()
        return not name.startswith("readme"), not find_paths(path), path.count("/"), path

    return sorted(files, key=rank)


def parse_recall_hits(seen: ObservedResult) -> list[str]:
    """The texts of user and assistant in a recall result, without the marks around the search words."""
    hits: list[tuple[str, list[str]]] = []
    for line in seen.text.splitlines():
        if (who := _recall_role(line)) is not None:
            hits.append((who, []))
        elif hits:
            hits[-1][1].append(line)
    texts = ("\n".join(lines) for who, lines in hits if who in ("user", "assistant"))
    return [shorten(text.replace("«", "").replace("»", ""), 120) for text in texts]


def _recall_role(line: str) -> str | None:
    """The role in the first line of a hit: `1. user, 2026-11-15, visible, record a-1`."""
    number, dot, rest = line.partition(". ")
    before, record, id = rest.rpartition(" record ")
    is_hit = dot and record and number.isdigit() and id and id.replace("-", "").replace("_", "").isalnum()
    return before.partition(",")[0] if is_hit else None
