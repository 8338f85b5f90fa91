"""Which file a command prints, if printing one file is all that it does.

For agents that read files by commands (Codex). In doubt the answer is "none": a command taken for a read by
mistake would restore the wrong file after a compaction.
"""

import shlex
from collections.abc import Mapping, Sequence
from typing import Final, cast

# Programs that print a file unchanged, and their options that take no argument.
_PRINTERS: Final[Mapping[str, frozenset[str]]] = {
    "cat": frozenset({"-n", "-b", "-A"}),
    "nl": frozenset({"-ba"}),
    "head": frozenset(),
    "tail": frozenset(),
    "sed": frozenset({"-n"}),
}
_SHELLS: Final = frozenset({"bash", "sh", "zsh"})
_SHELL_SYNTAX: Final = frozenset("|&;<>$`*?(){}~\n")


def printed_file(command: object) -> str:
    """The file that a command line prints, if it does nothing else: `cat a.py`, `sed -n '1,80p' a.py`."""
    words = _words(command)
    if not words or words[0] not in _PRINTERS:
        return ""
    program, plain = words[0], _PRINTERS[words[0]]
    rest = [word for word in words[1:] if word not in plain]
    if program in ("head", "tail"):
        rest = _without_count(rest)
    elif program == "sed":
        # The script says what is printed; without -n, or with a different script, the output may be changed.
        is_range = "-n" in words and len(rest) > 1 and rest[0].endswith("p")
        rest = rest[1:] if is_range and rest[0][:-1].replace(",", "").isdigit() else []
    return rest[0] if len(rest) == 1 and not rest[0].startswith("-") else ""


def _without_count(words: Sequence[str]) -> list[str]:
    """Remove `-n 40`, `-40` and `-n40`: they say how much, not which file."""
    if len(words) > 1 and words[0] == "-n":
        return list(words[2:])
    return [word for word in words if not (word.startswith("-") and word.lstrip("-n").isdigit())]


def _words(command: object) -> list[str]:
    """A command line as words; empty if a shell would do more with it than run one program."""
    if isinstance(command, list):
        words = [word for word in cast(list[object], command) if isinstance(word, str)]
        is_script = len(words) == 3 and words[0].rpartition("/")[2] in _SHELLS and words[1] in ("-c", "-lc")
        return _words(words[2]) if is_script else words
    if not isinstance(command, str) or _SHELL_SYNTAX & set(command.strip()):
        return []
    try:
        return shlex.split(command)
    except ValueError:
        return []
