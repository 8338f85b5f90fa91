"""Commands and how they ended: which program ran, whether its output reports a failure, what it committed.

An exit status that the harness prints is believed if it is not zero. Zero proves little, because a pipe
(`make test | tail`) hides the status of what ran before it, so the output is examined too. The output of a
command that only prints files or history may mention failures without being one.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from everturn.history.blocks import Block

# Searched in the bytes of a result, where a line break is spelled \n. Every alternative is a literal or
# bounded, so the search is linear.
_LINE: Final = rb'(?:\\n|":"|: ")(?: {0,8})'
_STRONG: Final = (
    b"Traceback (most recent", b"--- FAIL", b"FAILED", b"panic: ", b"error[E", b"rror: ", b"FAIL\\",
    b"CONFLICT (", b"fatal: ", b"npm ERR!", b"*** [", b"*** no rule", b"ERROR task failed", b" failed",
    b"command not found", b"FAIL:", b"No such file", b": error ", b"CMake Error", b"E: Unable", b"timed out",
    b'FAIL"', b"npm error", b"mise ERROR",
)  # fmt: skip
_FAILED: Final = re.compile(
    _LINE + rb"(?:Traceback \(most recent call last\)|--- FAIL|FAILED\b"
    rb"|FAIL(?:\\[nt]|:|\"|$)|panic: "
    rb"|fatal: |npm (?:ERR!|error )|mise ERROR |error(?:\[E\d{1,5}\])?: "
    rb"|(?:g?make(?:\[\d{1,4}\])?: )?\*\*\* |CONFLICT \("
    rb"|BUILD FAILED|CMake Error|E: Unable to |Command timed out|\[[\w:.-]{1,60}\] ERROR"
    rb"|[A-Z]\w{0,60}(?:Error|Exception): "
    rb"|[\w./-]{1,60}: (?:line \d{1,9}: )?[\w./-]{0,60}:? ?(?:command not found|No such file))"
    rb"|: error(?: [A-Z]{1,8}\d{1,6})?: |(?:^|[^\d.])[1-9]\d{0,6} (?:failed|failures|tests? failed)\b"
)
# A program that a passing test runs may print it too.
_SAYS_ERROR: Final = re.compile(_LINE + rb"Error: [^(]")
_PASSED: Final = re.compile(rb"[1-9]\d{0,6} passed\b|(?:test result: ok|OK \(\d|\\nOK\b)")
# How linters and compilers tell what they found: golangci-lint; pyright; eslint; ruff, mypy and tsc; go. What
# ruff repaired is not left.
_FINDINGS: Final = re.compile(
    rb"(?:^|[^\d.])[1-9]\d{0,6} (?:issues?:(?:\\n|\")|errors?, \d{1,6} warnings?|problems? \([1-9])"
    rb"|Found [1-9]\d{0,6} (?:errors?|problems?)\b(?! \(\d{1,6} fixed, 0 remaining)|"
    + _LINE
    + rb"# [\w./-]{1,200}(?: \[[\w./-]{1,200}\])?\\n(?:vet: )?[\w./-]{1,200}\.go:\d{1,9}:\d{1,9}: "
)
_SOME_FAILED: Final = re.compile(rb"[1-9]\d{0,6} (?:failed|failures|errors?)\b|FAILED|--- FAIL")
# "Exit code 1", "<returncode>1</returncode>", "exit_code":1, "[The command completed with exit code 1.]"
_STATUS: Final = re.compile(
    rb"(?:exit(?:ed with)?[ _](?:code|status)|returncode|exited with code)\W{1,6}(-?\d{1,10})\b",
    re.IGNORECASE,
)
_ENDS: Final = 400
_BACKGROUND: Final = re.compile(rb'"Command [\w ,\']{1,120}background with ID: ')
# What a conclusion about an output is drawn from, if it is longer.
_SEARCHED: Final = 40_000
_TAIL: Final = 1_500

_SEPARATED: Final = re.compile(r"&&|\|\||;|\n")
_QUOTED: Final = re.compile(r"\"[^\"]*\"|'[^']*'")
_ENVIRONMENT: Final = re.compile(r"^(?:\w{1,60}=\S{0,200}\s+)+")
_LONGEST: Final = 2_000
_PRINTING: Final = frozenset(
    {
        "cat", "head", "tail", "sed", "grep", "rg", "ag", "less", "more", "ls", "find", "fd", "awk", "wc",
        "echo", "printf", "nl", "jq", "tree", "stat", "file", "which", "pwd", "diff", "sort", "xxd",
    }
)  # fmt: skip
_PRINTING_GIT: Final = frozenset({"log", "show", "diff", "blame", "grep", "reflog", "cat-file", "ls-files"})
_PRINTING_GH: Final = re.compile(r"(?:pr|issue) (?:diff|view|list)\b")
_RUNNERS: Final = frozenset({"npm", "yarn", "pnpm", "mise", "uv", "poetry", "bun", "deno", "just", "docker"})
# Programs without commands of their own: what follows is what they examine.
_ALONE: Final = frozenset(
    {"pytest", "tox", "jest", "vitest", "rspec", "phpunit", "mypy", "pyright", "tsc", "eslint"}
)
_TESTING: Final = re.compile(r"test|\bci\b|e2e|jest|spec|tox")
_CHECKING: Final = re.compile(
    r"test|\bci\b|e2e|jest|spec|tox|lint|check|build|vet\b|tsc|mypy|pyright|ruff|clippy|compile|make|cargo"
    r"|gradle|mvn"
)
_NARROWED: Final = re.compile(
    r"\s(?:-run|-k|-t|--filter|--grep|--tests?|-R|--only)[ =]|::|_test\.|\btest_\w+\.|\.test\."
)

# Lines of Go and of linters.
_FINE: Final = re.compile(rb"(?:\\n|\")ok {1,3}\\t|\b0 (?:issues|errors|failures|failed)\b|All checks passed")
# What lets only some of the lines through: that none of them reports a failure proves nothing.
_FILTER: Final = re.compile(r"&?\s*(?:[efr]?grep|rg|ag|awk|wc|cut|sed -n|jq)\b")
_HEAD: Final = re.compile(r"&?\s*head(?:\s+(?:-n\s*|-)(\d{1,6}))?\s*$")
_HEAD_LINES: Final = 10
_INTO_FILE: Final = re.compile(r"(?:^|[^\d&<>=-]|[1&])>{1,2}\s*[^\s&>(]")
_DISCARDED: Final = re.compile(r"\d?>{1,2}\s*/dev/null|2>\S+")
_SHOWN_AFTER: Final = frozenset({"cat", "tail"})

_COMMITTED: Final = re.compile(r"^\[([^\]\n]{1,200}) ([0-9a-f]{7,40})\] (.{1,200})$", re.MULTILINE)
_PUSHED: Final = re.compile(
    r"^[ +*!]{0,4}\s{0,4}(?:[0-9a-f]{7,40}\.{2,3}[0-9a-f]{7,40}|\[new branch\])\s+(\S+ +-> +\S+)",
    re.MULTILINE,
)
_REQUEST: Final = re.compile(r"https?://\S{1,100}/(?:pull|merge_requests)/\d{1,9}\b")


def has_failed(command: str, result: Block) -> bool:
    """Whether the output of a command, or its status, reports a failure. The error flag is not examined."""
    raw = result.raw
    if any(int(found[1]) for end in (raw[:_ENDS], raw[-_ENDS:]) for found in _STATUS.finditer(end)):
        return True
    # The end of a long output is enough: there the failures are repeated.
    end = raw[-_SEARCHED:]
    if only_prints(command):
        return False
    if _examines_code(command) and _FINDINGS.search(end):
        return True
    if not any(mark in end for mark in _STRONG):
        return False
    if _PASSED.search(raw[-_TAIL:]) and not _SOME_FAILED.search(raw[-_TAIL:]):
        return False
    if _FAILED.search(end):
        return True
    return _SAYS_ERROR.search(end) is not None and not _FINE.search(raw[-_TAIL:])


def _examines_code(command: str) -> bool:
    """Whether it lints or builds. What tests print may count errors without being one."""
    return is_check(command) and not tests_only(programs(command))


def only_prints(command: str) -> bool:
    """Whether a command prints files, searches or history: what it shows says nothing about how it ended."""
    parts = [part for part in _parts(command) if not part.startswith("cd ")]
    return bool(parts) and all(_prints(part) for part in parts)


def _prints(part: str) -> bool:
    program, _, rest = part.partition(" ")
    if program == "git":
        return rest.split(" ", 1)[0] in _PRINTING_GIT
    if program == "gh":
        return _PRINTING_GH.match(rest) is not None
    return program in _PRINTING


def _parts(command: str) -> Iterator[str]:
    """The commands of a line, without what their output is piped into."""
    for piece in _SEPARATED.split(_plain(command)):
        text = _ENVIRONMENT.sub("", piece.split("|", 1)[0].strip())
        if text and not text.startswith("#"):
            yield text


def _plain(command: str) -> str:
    """Without quoted text and here documents, which are data; the rest behind the latter is not read."""
    return _QUOTED.sub("''", command[:_LONGEST].partition("<<")[0])


def programs(command: str) -> tuple[str, ...]:
    """What a command runs, without options and paths: `go test ./... -v` is `go test`."""
    found = (_program(part) for part in _parts(command) if not part.startswith("cd "))
    return tuple(dict.fromkeys(filter(None, found)))


def _program(part: str) -> str:
    words = part.split()[:8]
    if len(words) > 2 and words[1] == "-m":
        return " ".join(words[:3])
    most = 1 if words[0] in _ALONE else 3 if words[0] in _RUNNERS else 2
    kept = words[:1]
    for word in words[1:]:
        if len(kept) == most or word.startswith(("-", "2>", ">", "'", '"', "$", ".")) or "/" in word:
            break
        kept.append(word)
    return " ".join(kept)


def is_check(command: str) -> bool:
    """Whether it tests, builds or lints: until it passes, the work is not done."""
    return any(_CHECKING.search(program) for program in programs(command) if not program.startswith("git "))


def runs_in_background(result: Block) -> bool:
    """Whether a command was only started."""
    begin = result.raw[:_ENDS]
    return b"background with ID: " in begin and _BACKGROUND.search(begin) is not None


def shows_how_it_ended(command: str, result: Block) -> bool:
    """Whether a failed check would have been seen: its output was not searched for some lines, written to a
    file or left to run in the background. A line that says what passed shows it in any case.
    """
    if runs_in_background(result):
        return False
    if _PASSED.search(result.raw[-_TAIL:]) or _FINE.search(result.raw[-_TAIL:]):
        return True
    pieces = [piece.strip() for piece in _SEPARATED.split(_plain(command))]
    for at, piece in enumerate(pieces):
        text, *filters = _ENVIRONMENT.sub("", piece).split("|")
        if not text.strip() or not is_check(text):
            continue
        if any(_FILTER.match(each) or _is_cut(each, result) for each in filters):
            return False
        is_shown = any(later.partition(" ")[0] in _SHOWN_AFTER for later in pieces[at + 1 :])
        if not is_shown and (_INTO_FILE.search(_DISCARDED.sub("", text)) or "> /dev/null" in text):
            return False
    return True


def _is_cut(stage: str, result: Block) -> bool:
    """Whether `head` may have left something out: it printed as many lines as it may."""
    head = _HEAD.match(stage)
    return head is not None and result.raw.count(rb"\n") + 1 >= int(head[1] or _HEAD_LINES)


def is_delivery(command: str) -> bool:
    """Whether it commits or pushes. Merges are followed by their conflicts (`merges.py`)."""
    return not {"git commit", "git push"}.isdisjoint(programs(command))


def tests_only(ran: Iterable[str]) -> bool:
    """Whether these programs all run tests."""
    return all(_TESTING.search(program) and not program.startswith("git ") for program in ran)


def is_narrowed(command: str) -> bool:
    """Whether only some of the tests were run."""
    return _NARROWED.search(command[:_LONGEST]) is not None


def commits_in(output: str) -> list[str]:
    """What `git commit` says that it committed: hash, title and branch."""
    return [f"{sha} {title} (on {branch})" for branch, sha, title in _COMMITTED.findall(output)]


def pushes_in(output: str) -> list[str]:
    return [" ".join(found.split()) for found in _PUSHED.findall(output)]


def requests_in(output: str) -> list[str]:
    """Addresses of pull requests that a command printed."""
    return list(dict.fromkeys(_REQUEST.findall(output)))
