"""What "always" covers for a command: a family of commands that are listed here, or exactly this command.

A family is a program, its subcommand where it has any, and options that cannot make it run another program,
write a file or leave the workspace. Everything else (other programs, other options, quotes, wildcards, pipes,
anything that is not ASCII) is covered word for word only. What a family may do is in docs/chat.md.
"""

import re
from typing import Final, Literal, NamedTuple

from everturn.chat.tools.files.guarded import is_secret
from everturn.safe_files import is_plain_path

# Nothing here is special to a shell, and only a space separates words: a shell splits at fewer characters
# than Python does.
_PLAIN: Final = re.compile(r"[A-Za-z0-9_./:,@%+= -]{1,1000}\Z")
_FLAGS: Final = r"-[{letters}]{{1,8}}"
_COUNT: Final = r"-\d{1,4}|-n|-n\d{1,4}|--max-count=\d{1,4}"

OperandKind = Literal["none", "words", "paths"]


class CommandFamily(NamedTuple):
    """`options` matches a whole option; every other word is an operand. "paths" lie inside the workspace and
    do not suggest secrets; "words" are printed or compared and never opened."""

    options: str = "(?!)"
    operands: OperandKind = "none"


_GIT_FORMS: Final = "--stat|--shortstat|--name-only|--name-status"
_GIT_LOG: Final = rf"{_GIT_FORMS}|--oneline|--graph|--all|--no-merges|--|{_COUNT}"
_CARGO: Final = r"--all|--workspace|--release|--all-targets|--all-features|--lib|-q|-v|--quiet|--verbose"
# By program and subcommand. The first part only looks; the second part runs the project's own code, which is
# what the user is asked about when "always" is offered.
FAMILIES: Final[dict[tuple[str, ...], CommandFamily]] = {
    ("pwd",): CommandFamily(),
    ("date",): CommandFamily(),
    ("whoami",): CommandFamily(),
    ("uname",): CommandFamily("-[asrm]{1,4}"),
    ("echo",): CommandFamily("-n", "words"),
    ("which",): CommandFamily(operands="words"),
    ("ls",): CommandFamily(_FLAGS.format(letters="AaFGhlRrSt1"), "paths"),
    ("git", "status"): CommandFamily("-s|-b|-sb|--short|--branch|--porcelain", "paths"),
    ("git", "log"): CommandFamily(_GIT_LOG, "paths"),
    ("git", "diff"): CommandFamily(f"{_GIT_FORMS}|--cached|--staged|--", "paths"),
    ("git", "show"): CommandFamily(f"{_GIT_FORMS}|--oneline|--", "paths"),
    ("git", "ls-files"): CommandFamily("--", "paths"),
    ("git", "rev-parse"): CommandFamily("--short|--abbrev-ref|--show-toplevel|--verify", "words"),
    ("pytest",): CommandFamily(
        r"-q|-qq|-v|-vv|-x|-s|-l|--lf|--ff|--co|--no-header|-r[a-zA-Z]{1,4}"
        r"|--tb=(?:auto|long|short|line|native|no)|--maxfail=\d{1,4}|--durations=\d{1,4}|-k|-m|-n",
        "paths",
    ),
    ("ruff", "check"): CommandFamily("-q|--quiet|--no-fix|--statistics", "paths"),
    ("mypy",): CommandFamily("--strict|-p|-m", "paths"),
    ("pyright",): CommandFamily(operands="paths"),
    ("cargo", "test"): CommandFamily(_CARGO, "words"),
    ("cargo", "check"): CommandFamily(_CARGO),
    ("cargo", "build"): CommandFamily(_CARGO),
    ("cargo", "clippy"): CommandFamily(_CARGO),
    ("go", "test"): CommandFamily(r"-v|-race|-short|-count=\d{1,3}", "paths"),
    ("go", "vet"): CommandFamily(operands="paths"),
    ("go", "build"): CommandFamily("-v|-race", "paths"),
    ("npm", "test"): CommandFamily("--silent"),
}  # fmt: skip


def always_scope(command: str) -> str:
    """What "always" would cover, for the user to read."""
    if family := find_family(command):
        return f"{' '.join(family)} …"
    return f"exactly: {command}"


def find_family(command: str) -> tuple[str, ...]:
    """The program and subcommand of a command that is safe to cover with others of its kind; else empty."""
    if not _PLAIN.match(command):
        return ()
    words = command.split(" ")
    words = [word for word in words if word]
    for count in (2, 1):
        family = FAMILIES.get(tuple(words[:count]))
        if family is not None and len(words) >= count:
            is_covered = all(_is_covered(word, family) for word in words[count:])
            return tuple(words[:count]) if is_covered else ()
    return ()


def _is_covered(word: str, family: CommandFamily) -> bool:
    if word.startswith("-"):
        return re.fullmatch(family.options, word) is not None
    if family.operands == "paths":
        return _is_inside(word)
    return family.operands == "words"


def _is_inside(word: str) -> bool:
    """A path, or a revision with one (`HEAD:src/a.py`), that cannot leave the workspace."""
    if "=" in word:
        return False
    parts = [
        part.removesuffix("/").removeprefix("./") for part in word.split(":") if part not in ("", ".", "./")
    ]
    return all(is_plain_path(part) and not is_secret(part) for part in parts)
