"""What the source must not contain: ways to run text as code, and patterns whose cost explodes (S08, S18)."""

import ast
import re
import re._constants as ops
import re._parser as parser
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from builders import assistant, call, result, summary, user
from source_trees import tree_of

from everturn.decide.compact.pins import standing_instructions
from everturn.decide.compact.summary_response import formatted, text_problem
from everturn.decide.extractive import summarize
from everturn.redaction import redact_secrets
from everturn.session.memory_files.imports import find_imports
from everturn.view.fragments.escaping import escaped
from everturn.wire.claude_code_reader import parse_session_file
from everturn.wire.overflow import parse_overflow

ROOT = Path(__file__).parents[2] / "src" / "everturn"
SOURCES = {path.relative_to(ROOT).as_posix(): path for path in sorted(ROOT.rglob("*.py"))}
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__"}
FORBIDDEN_MODULES = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "yaml"}
# The one module that starts processes, and the modules of the standard library that can.
STARTS_PROCESSES = {"processes.py"}
PROCESS_MODULES = {"subprocess", "pty", "asyncio.subprocess"}
PROCESS_CALLS = re.compile(
    r"(?:exec[lv]p?e?|spawn[lv]p?e?|posix_spawnp?|fork|forkpty|system|popen|create_subprocess_\w+)\Z"
)
# The only modules that open files, each with what it opens; all others go through the first.
OPENS_FILES = {
    "cli/__init__.py": "the null device, when the disk is full",
    "cli/dashboard.py": "a browser, not a file",
    "cli/gateway.py": "the null device, for standard streams that are closed",
    "cli/run.py": "the same, where nothing more can be said",
    "gateway/upstream.py": "the bytes of a request, not a file",
    "gateway/stores.py": "a file without a name, to see whether a folder can be written",
    "web_dashboard/app.py": "styles and scripts of the package",
    "safe_files.py": "the functions that all others use",
    "session/store/file_system.py": "the store's calls, which tests replace by failing ones",
    "chat/tools/search/grep_worker.py": "a process of its own that imports only the standard library",
    "chat/tools/files/atomic_write.py": "the user's files, which keep the user's modes",
    "replay/page/document.py": "files of the package itself",
    "twin/build.py": "files that whoever starts the twin names",
}
FILE_CALLS = {"open", "fdopen", "read_text", "write_text", "read_bytes", "write_bytes", "mkdir", "makedirs",
              "touch",
              "mkstemp", "NamedTemporaryFile", "TemporaryFile", "copy", "copyfile", "copytree"}  # fmt: skip
# Methods of our own with these names.
OUR_OPENS = {"Session", "AsyncSession", "JsonlStore", "FolderStore", "agent", "cls", "_io", "io", "self",
             "super", "stores", "_stores", "_transcripts"}  # fmt: skip
# The only modules that print; all others return words.
PRINTS = {
    "cli/output.py": "for commands: `printable`",
    "chat/screen/terminal.py": "for the chat: lines that were fitted to the screen, and `StreamWrapper`",
    "chat/start.py": "an answer for a program, or `printable`",
    "cli/export.py": "the lines of a session as recorded, never to a terminal",
    "cli/__init__.py": "the end of a line that Ctrl-C has cut",
    "cli/twin.py": "the address, which has only numbers",
    "cli/twin_verify.py": "`printable`, and sentences of our own with numbers",
    "adapters/claude_code/statusline.py": "one line that is checked in its own tests",
    "adapters/claude_code/hooks.py": "JSON in ASCII, or `printable`",
    "dashboard/progress.py": "`plain`",
    "dashboard/audit.py": "lines that were fitted to the screen",
    "dashboard/call_chart.py": "lines that were fitted to the screen",
    "dashboard/long_session_chart.py": "lines that were fitted to the screen",
    "dashboard/recall_output.py": "lines that were fitted to the screen",
    "dashboard/replay_table.py": "lines that were fitted to the screen",
    "dashboard/terminal.py": "lines that were fitted to the screen",
    "replay/cache_check.py": "numbers, for developers",
    "replay/economy_tables.py": "numbers, for developers",
    "replay/pause_table.py": "numbers, for developers",
    "replay/reuse_table.py": "numbers, for developers",
    "replay/refetches/sample.py": "a sample to be judged, for developers",
    "replay/retention_table.py": "numbers, for developers",
}


@cache
def trees() -> tuple[tuple[str, ast.Module], ...]:
    return tuple((name, tree_of(path)) for name, path in SOURCES.items())


def test_nothing_is_evaluated_unpickled_or_given_to_a_shell():
    found = [
        f"{name}:{node.lineno}"
        for name, tree in trees()
        for node in ast.walk(tree)
        if (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in FORBIDDEN_CALLS
        )
        or (isinstance(node, ast.keyword) and node.arg == "shell" and not _is_false(node.value))
        or (
            isinstance(node, ast.Attribute)
            and node.attr in ("system", "popen")
            and _named(node.value) == "os"
        )
    ]
    assert found == []


def test_no_module_that_builds_objects_from_bytes_is_imported():
    found = [
        (name, module)
        for name, tree in trees()
        for node in ast.walk(tree)
        for module in _imported(node)
        if module.split(".")[0] in FORBIDDEN_MODULES
    ]
    assert found == []


def test_processes_are_started_in_one_place():
    starts = {
        name
        for name, tree in trees()
        for node in ast.walk(tree)
        if PROCESS_MODULES.intersection(_imported(node))
        or (
            isinstance(node, ast.Attribute)
            and PROCESS_CALLS.match(node.attr)
            and _named(node.value) in ("os", "asyncio", "posix")
        )
    }
    assert starts == STARTS_PROCESSES


def test_files_are_opened_and_created_in_one_place():
    opens = {
        name
        for name, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and _is_file_call(node.func)
    }
    assert opens == set(OPENS_FILES)


def _is_file_call(function: ast.expr) -> bool:
    if isinstance(function, ast.Name):
        return function.id in FILE_CALLS - {"copy"}
    if not isinstance(function, ast.Attribute) or function.attr not in FILE_CALLS:
        return False
    owner = function.value
    if function.attr == "copy":
        return _named(owner) == "shutil"
    last = owner.attr if isinstance(owner, ast.Attribute) else _named(owner)
    return last not in OUR_OPENS


def test_words_are_printed_in_few_places():
    prints = {
        name
        for name, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and _is_print_call(node.func)
    }
    assert prints == set(PRINTS)


def _is_print_call(function: ast.expr) -> bool:
    if isinstance(function, ast.Name):
        return function.id == "print"
    if not isinstance(function, ast.Attribute):
        return False
    owner = function.value
    if function.attr in ("echo", "secho"):
        return _named(owner) == "click"
    last = owner.attr if isinstance(owner, ast.Attribute) else _named(owner)
    return (function.attr == "print" and "console" in last) or (
        function.attr == "write" and last in ("stdout", "stderr", "buffer", "_out")
    )


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [each.name for each in node.names]
    return [node.module] if isinstance(node, ast.ImportFrom) and node.module else []


def _is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is False


def _named(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""


# ── patterns ─────────────────────────────────────────────────────────────────────────────────────

REPEATS = (ops.MAX_REPEAT, ops.MIN_REPEAT)


@cache
def patterns() -> tuple[tuple[str, str | bytes, int], ...]:
    """Every pattern that stands in the source as a text of its own, with its flags."""
    calls = ((name, node) for name, tree in trees() for node in ast.walk(tree) if isinstance(node, ast.Call))
    ours = ((name, node) for name, node in calls if isinstance(node.func, ast.Attribute) and node.args)
    return tuple(
        (f"{name}:{node.lineno}", first.value, _flags(node))
        for name, node in ours
        if isinstance(node.func, ast.Attribute) and _named(node.func.value) == "re"
        if isinstance(first := node.args[0], ast.Constant) and isinstance(first.value, str | bytes)
    )


def _flags(call: ast.Call) -> int:
    said = ast.dump(call)
    names = ("IGNORECASE", "VERBOSE", "MULTILINE", "DOTALL", "ASCII")
    return sum(int(getattr(re, name)) for name in names if f"attr='{name}'" in said)


def nested_repeats(parsed: Any, *, inside: bool = False) -> Iterator[str]:
    """Unbounded repeats of something that itself repeats without bound and may end in two ways: the shape
    behind every exponential pattern. A group that must begin with a fixed character can be split in one way
    only."""
    for op, given in parsed:
        if op in REPEATS:
            low, high, inner = given
            is_endless = high is ops.MAXREPEAT
            if is_endless and inside:
                yield f"{op} {low}..."
            yield from nested_repeats(inner, inside=is_endless and not _begins_fixed(inner))
        elif op is ops.SUBPATTERN:
            yield from nested_repeats(given[-1], inside=inside)
        elif op is ops.BRANCH:
            for branch in given[1]:
                yield from nested_repeats(branch, inside=inside)
        elif op in (ops.ATOMIC_GROUP, ops.POSSESSIVE_REPEAT, ops.ASSERT, ops.ASSERT_NOT):
            continue


def _begins_fixed(parsed: Any) -> bool:
    items = list(parsed)
    while items and items[0][0] is ops.SUBPATTERN:
        items = [*items[0][1][-1], *items[1:]]
    if items and items[0][0] is ops.BRANCH:
        return all(_begins_fixed(branch) for branch in items[0][1][1])
    return bool(items) and items[0][0] in (ops.LITERAL, ops.ASSERT_NOT, ops.ASSERT)


# Looked at by hand: what repeats begins with characters that the repeated part before it cannot hold.
UNAMBIGUOUS = {
    # Every round ends in a space, which the rest of it cannot match.
    r"^(?:\w{1,60}=\S{0,200}\s+)+",
    r"[^\W_]+(?:_+[^\W_]+)*",
    r"\b(?:[a-z]+_[a-z_]+|[A-Z][a-z]+(?:[A-Z][a-z]+)+)\b",
}


def test_no_pattern_repeats_what_repeats_itself():
    found = {pattern for _, pattern, flags in patterns() if any(nested_repeats(parser.parse(pattern, flags)))}
    assert len(patterns()) > 60
    assert found == UNAMBIGUOUS


def test_the_shape_behind_exponential_patterns_is_recognised():
    bad = (r"(\w+\s*)+x", r"(a*)*", r"(?:\d*|b)+z", r"(?:\s+\w*)+$")
    fine = (r"(?:,\d+)*", r"\w+\s+\w+", r"(?:\n[ ]*)+")
    assert [any(nested_repeats(parser.parse(each))) for each in bad] == [True] * 4
    assert [any(nested_repeats(parser.parse(each))) for each in fine] == [False] * 3


# ── what reads foreign text, with text that nearly matches ───────────────────────────────────────

SIZE = 40_000
NEAR_MISSES = (
    "a", " ", "\n", "<", "`", '"', "#", "-", "\\", "sk-", "1. ", "a.b/", "'\n", "[ ", "never ", "@a ",
    "e\u0301",
    "<system-reminder>", "bearer ", "://a:", "tokens ", "Error", "> ", "** ", "\ud83d", "use a ",
)  # fmt: skip


def _whole(text: str) -> str:
    """Without half characters, which no record that was read has."""
    return text.encode("utf-8", "replace").decode()


def _summary_of(text: str) -> object:
    text = _whole(text)
    records = (user(text), assistant(call("c1", "Bash", command="x")), result("c1", text, uuid="r"))
    return summarize((*records, summary(text, uuid="s", parent="b")))


READERS: dict[str, Callable[[str], object]] = {
    "secrets": redact_secrets,
    "overflow": parse_overflow,
    "tags": escaped,
    "mentions": lambda text: list(find_imports(text)),
    "a summary's form": lambda text: text_problem(formatted(text)),
    "pins": lambda text: standing_instructions(user(_whole(text)), 400),
    "a transcript": lambda text: parse_session_file(text.encode("utf-8", "surrogatepass")),
    "a whole summary": _summary_of,
}


@pytest.mark.parametrize("reader", READERS)
def test_text_that_nearly_matches_is_read_in_a_moment(reader: str):
    """A quadratic pattern takes many seconds for so much; growth itself is measured in bench/."""
    slow: list[tuple[str, float]] = []
    for near in NEAR_MISSES:
        text = near * (SIZE // len(near))
        began = time.process_time()
        READERS[reader](text)
        slow += [(near, took)] if (took := time.process_time() - began) > 2 else []
    assert slow == []
