"""Permissions: each action of the agent is granted, refused, or the user is asked.

One table says what each mode grants. "Always" holds for the session and covers exactly the `key` of the
request: a folder, one file, a family of commands (`tools/command_scope.py`) or exactly one command. The tools
(`tools/`) build the requests; the terminal asks the user.
"""

from collections.abc import Callable, Mapping
from typing import Final, Literal, NamedTuple, get_args

import msgspec

from everturn.errors import UsageError
from everturn.terminal_text import visible

ActionKind = Literal["look", "edit", "guarded edit", "command"]
PermissionMode = Literal["ask", "accept edits", "read only", "all"]
PermissionAnswer = Literal["once", "always", "no"]
PermissionDecision = Literal["grant", "ask", "refuse"]

MODES: Final[tuple[PermissionMode, ...]] = get_args(PermissionMode)

# The decision for each kind of action in each mode. Reading inside the workspace needs no permission. "look":
# read outside the workspace, or a file whose name suggests secrets. "guarded edit": an edit of such a file,
# or of one that programs run or obey by themselves (`tools/files/guarded.py`).
DECISIONS: Final[Mapping[PermissionMode, Mapping[ActionKind, PermissionDecision]]] = {
    "ask": {"look": "ask", "edit": "ask", "guarded edit": "ask", "command": "ask"},
    "accept edits": {"look": "ask", "edit": "grant", "guarded edit": "ask", "command": "ask"},
    "read only": {"look": "ask", "edit": "refuse", "guarded edit": "refuse", "command": "refuse"},
    "all": {"look": "grant", "edit": "grant", "guarded edit": "grant", "command": "grant"},
}


class PermissionRequest(msgspec.Struct, frozen=True):
    """An action that needs permission. `what` is one line, `detail` a diff or the full command, `key` what
    "always" covers, in readable form."""

    tool: str
    what: str
    detail: str
    key: str
    kind: ActionKind = "command"


AskPermission = Callable[[PermissionRequest], PermissionAnswer]


class HookDecision(NamedTuple):
    """What PermissionRequest hooks decided; without a behavior the user is asked (HK-4)."""

    behavior: Literal["", "allow", "deny"] = ""
    reason: str = ""


PermissionHook = Callable[[PermissionRequest], HookDecision]


class PermissionDenied(Exception):
    """Permission was not given. The message is for the model."""


def deny_all(_: PermissionRequest) -> PermissionAnswer:
    """For programs without a user to ask."""
    return "no"


def to_one_line(text: str, most: int = 200) -> str:
    line = visible(" ".join(text.split()))
    return line if len(line) <= most else line[: most - 1] + "…"


class Permissions:
    """The mode, how to ask the user, and what the user always allowed."""

    def __init__(self, ask: AskPermission = deny_all, mode: PermissionMode = "ask") -> None:
        self._ask = ask
        # Called before the user is asked.
        self.run_hooks: PermissionHook = lambda _: HookDecision()
        self.mode = mode
        self._always: dict[tuple[ActionKind, str], None] = {}

    @property
    def mode(self) -> PermissionMode:
        return self._mode

    @mode.setter
    def mode(self, mode: PermissionMode) -> None:
        if mode not in DECISIONS:
            raise UsageError(f"Unknown permission mode {mode!r}; the modes are {', '.join(MODES)}.")
        self._mode: PermissionMode = mode

    @property
    def always_allowed(self) -> tuple[str, ...]:
        return tuple(key for _, key in self._always)

    def forget(self) -> None:
        self._always.clear()

    def require(self, request: PermissionRequest) -> None:
        """Returns if permission is given, raises PermissionDenied otherwise."""
        if why := self.refusal(request):
            raise PermissionDenied(why)

    def refusal(self, request: PermissionRequest) -> str:
        """Why permission is denied; "" if it is given."""
        meets = DECISIONS[self.mode][request.kind]
        if meets == "refuse":
            mode = f"the session is {self.mode}"
            return f"{mode}: not allowed to {request.what}. Describe what you would do instead."
        if meets == "grant" or (request.kind, request.key) in self._always:
            return ""
        decided = self.run_hooks(request)
        if decided.behavior == "deny":
            return f"a hook does not allow to {request.what}: {decided.reason}. Do not try it in another way."
        if decided.behavior == "allow":
            return ""
        answer = self._ask(request)
        if answer == "always":
            self._always[request.kind, request.key] = None
        if answer in ("once", "always"):
            return ""
        return (
            f"the user said no to: {request.what}. Do not try it in another way; ask what they want instead."
        )
