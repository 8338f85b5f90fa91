"""What the agent may do without being asked about it: a wish is granted, asked about, or refused.

Which modes grant what is one table. "Always" is remembered for the session and covers exactly the `key` that
the wish names: a folder, or the first words of a plain command. What a wish is about is decided by the tools
(`tools/`); how a person is asked is the terminal's.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final, Literal, get_args

import msgspec

from everturn.errors import UsageError

ActionKind = Literal["look", "edit", "guarded edit", "command"]
PermissionMode = Literal["ask", "accept edits", "read only", "all"]
PermissionAnswer = Literal["once", "always", "no"]
PermissionDecision = Literal["grant", "ask", "refuse"]

MODES: Final[tuple[PermissionMode, ...]] = get_args(PermissionMode)

# What a kind of wish meets in each mode. Reading in the workspace is no wish; a look is at what lies outside,
# or holds secrets by its name. An edit there, or of what git runs and trusts, is guarded.
DECISIONS: Final[Mapping[PermissionMode, Mapping[ActionKind, PermissionDecision]]] = {
    "ask": {"look": "ask", "edit": "ask", "guarded edit": "ask", "command": "ask"},
    "accept edits": {"look": "ask", "edit": "grant", "guarded edit": "ask", "command": "ask"},
    "read only": {"look": "ask", "edit": "refuse", "guarded edit": "refuse", "command": "refuse"},
    "all": {"look": "grant", "edit": "grant", "guarded edit": "grant", "command": "grant"},
}

# Characters that could make a terminal show something other than what will happen: controls but newline
# and tab, and the marks that turn the direction of writing.
_HIDDEN_CHARACTERS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


class PermissionRequest(msgspec.Struct, frozen=True):
    """What a tool wants to do. `what` is one line; `detail` a diff or the whole command; `key` what "always"
    covers, in words that can be shown."""

    tool: str
    what: str
    detail: str
    key: str
    kind: ActionKind = "command"


AskPermission = Callable[[PermissionRequest], PermissionAnswer]


class PermissionDenied(Exception):
    """The wish was not granted. The words are for the model."""


def deny_all(_: PermissionRequest) -> PermissionAnswer:
    """For programs that have nobody to ask."""
    return "no"


def escape_hidden(text: str) -> str:
    """Text as a person should see it before saying yes: what hides is spelled out."""
    return _HIDDEN_CHARACTERS.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def to_one_line(text: str, most: int = 200) -> str:
    line = escape_hidden(" ".join(text.split()))
    return line if len(line) <= most else line[: most - 1] + "…"


class Permissions:
    """The mode, whom to ask, and what was allowed for good."""

    def __init__(self, ask: AskPermission = deny_all, mode: PermissionMode = "ask") -> None:
        self._ask = ask
        self.mode = mode
        self._always: dict[tuple[ActionKind, str], None] = {}

    @property
    def mode(self) -> PermissionMode:
        return self._mode

    @mode.setter
    def mode(self, mode: PermissionMode) -> None:
        if mode not in DECISIONS:
            raise UsageError(f"There is no permission mode {mode!r}; the modes are {', '.join(MODES)}.")
        self._mode: PermissionMode = mode

    @property
    def always_allowed(self) -> tuple[str, ...]:
        return tuple(key for _, key in self._always)

    def forget(self) -> None:
        self._always.clear()

    def require(self, wish: PermissionRequest) -> None:
        """Returns when the wish is granted."""
        if why := self.refusal(wish):
            raise PermissionDenied(why)

    def refusal(self, wish: PermissionRequest) -> str:
        """Why not; "" where it may be done."""
        meets = DECISIONS[self.mode][wish.kind]
        if meets == "refuse":
            return f"the session is {self.mode}: it may not {wish.what}. Say what you would do instead."
        if meets == "grant" or (wish.kind, wish.key) in self._always:
            return ""
        answer = self._ask(wish)
        if answer == "always":
            self._always[wish.kind, wish.key] = None
        if answer in ("once", "always"):
            return ""
        return f"the user said no to: {wish.what}. Do not try it in another way; ask what they want instead."
