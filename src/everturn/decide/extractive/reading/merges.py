"""The state of a merge or rebase: which files still have conflicts, as far as git's output shows it.

A file is open from the output that names its conflict until it is added, the operation is committed,
continued without new conflicts or aborted, or `git status` no longer lists it.
"""

import re
from typing import Final

_CONFLICT: Final = re.compile(
    r"^CONFLICT \([^)\n]{1,80}\): (?:Merge conflict in (.{1,400})|(\S{1,400}) (?:deleted|renamed|added).*)$",
    re.MULTILINE,
)
_UNMERGED: Final = re.compile(
    r"^[ \t]{0,20}(?:(?:both|deleted by|added by)[ \w]{1,12}:[ \t]{1,40}|(?:UU|AA|DD|DU|UD|AU|UA) )"
    r"(\S.{0,400}?)[ \t\r]{0,40}$",
    re.MULTILINE,
)
_STATUS: Final = re.compile(r"^On branch |^HEAD detached|^(?:interactive )?rebase in progress", re.MULTILINE)
_GIT: Final = re.compile(r"\bgit (?:-C \S{1,400} )?([a-z-]{2,20})([^;&|\n]{0,2000})")
_UNDER_WAY: Final = {
    "rebase in progress": "a rebase is in progress",
    "You are currently rebasing": "a rebase is in progress",
    "You have unmerged paths": "a merge is in progress",
    "you are still merging": "a merge is in progress, all conflicts fixed, not committed",
    "You are currently cherry-picking": "a cherry-pick is in progress",
    "could not apply": "a rebase or cherry-pick stopped at a commit that could not be applied",
    "Automatic merge failed": "a merge is in progress",
}
_FINISHED: Final = re.compile(
    r"\b(?:rebase|merge|conflicts?|cherry-pick)\b.{0,60}\b(?:complete[sd]?|finished|done"
    r"|resolved|succe\w+|aborted|fixed)\b"
    r"|\b(?:completed|finished|resolved|aborted|fixed) (?:the |all )?(?:rebase|merge|conflict|cherry-pick)",
    re.IGNORECASE,
)
_SEARCHED: Final = 4_000
_EVERYTHING: Final = frozenset({"-A", "--all", ".", "-u", "--update"})


class MergeState:
    """`open` are files with conflicts; `under_way` names the unfinished operation."""

    def __init__(self) -> None:
        self.open: dict[str, None] = {}
        self.under_way = ""
        self.is_known = False

    def note(self, command: str, output: str, *, failed: bool) -> None:
        steps = _GIT.findall(command)
        if not steps:
            return
        self.is_known = True
        for verb, given in steps:
            if not failed or verb == "add":
                self._do(verb, given.split())
        if _STATUS.search(output):
            self.open.clear()
            self.under_way = ""
        self.open |= dict.fromkeys(first or second for first, second in _CONFLICT.findall(output))
        self.open |= dict.fromkeys(_UNMERGED.findall(output))
        told = (words for sign, words in _UNDER_WAY.items() if sign in output)
        self.under_way = next(told, self.under_way)

    def heard(self, words: str) -> None:
        """The user says that they finished it themselves."""
        if self.under_way and _FINISHED.search(words[:_SEARCHED]):
            self.open.clear()
            self.under_way = ""

    def _do(self, verb: str, given: list[str]) -> None:
        if verb in ("commit", "merge", "rebase", "cherry-pick", "reset", "am"):
            self.open.clear()
            self.under_way = ""
        elif verb in ("add", "rm"):
            if _EVERYTHING & set(given):
                self.open.clear()
            for path in given:
                for each in [name for name in self.open if name == path or name.endswith(f"/{path}")]:
                    del self.open[each]
