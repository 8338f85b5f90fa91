"""Hooks as settings files spell them: the `hooks` object of Claude Code's settings (HK-2).

A command in a project's file is code that came with the project: nobody asked for it. It is taken only where
somebody has looked at exactly these hooks and trusts them; `digest` names what was looked at, so that a
change of the file asks again.
"""

import hashlib
import re
from collections.abc import Collection, Mapping
from typing import Any, Final, cast, get_args

import msgspec

from everturn.decide.effects import HookEvent
from everturn.session.hooks.rules import HOOK_RULES

# For files that are the user's own.
EVERYTHING: Final = ("*",)
_PLAIN: Final = re.compile(r"[\w|\- ]*\Z")
# Fields that change whether or when a hook runs, and that we do not know how to honour.
_CONDITIONS: Final = ("if",)


class HookCommand(msgspec.Struct, frozen=True):
    """A command to run. With `args` it is a program and its arguments; without, a line for the shell."""

    command: str
    args: tuple[str, ...] | None = None

    @property
    def argv(self) -> tuple[str, ...]:
        # Nothing of the payload is ever part of the line: it comes on standard input.
        return (self.command, *self.args) if self.args is not None else ("/bin/sh", "-c", self.command)


class CommandHook(msgspec.Struct, frozen=True):
    event: HookEvent
    matcher: str
    run: HookCommand
    seconds: float
    origin: str = ""

    @property
    def name(self) -> str:
        return f"{self.run.command!r} ({self.origin})" if self.origin else repr(self.run.command)


class ParsedHooks(msgspec.Struct, frozen=True):
    hooks: tuple[CommandHook, ...] = ()
    problems: tuple[str, ...] = ()
    digest: str = ""


def matches(matcher: str, value: str) -> bool:
    """Names separated by `|`, a pattern where it has other characters, or everything."""
    if matcher in ("", "*"):
        return True
    if _PLAIN.match(matcher):
        return value in (name.strip() for name in matcher.split("|"))
    try:
        return re.fullmatch(matcher, value) is not None
    except re.error:
        return False


def parse_hooks(data: bytes, *, origin: str, trusted: Collection[str]) -> ParsedHooks:
    """The command hooks of a settings file. `trusted` holds the digests that somebody has agreed to."""
    try:
        settings = msgspec.json.decode(data)
    except (msgspec.MsgspecError, RecursionError) as problem:
        return ParsedHooks(problems=(f"{origin} is no JSON ({problem}); no hook of it is run",))
    section = settings.get("hooks") if isinstance(settings, dict) else None
    if section is None:
        return ParsedHooks()
    if not isinstance(section, dict):
        return ParsedHooks(problems=(f"{origin}: hooks must be an object",))
    digest = hashlib.sha256(msgspec.json.encode(section, order="sorted")).hexdigest()
    reader = _Reader(origin)
    reader.read(section)
    if reader.hooks and digest not in trusted and "*" not in trusted:
        why = f"{origin}: {len(reader.hooks)} hooks are not run, because nobody has said to trust them"
        return ParsedHooks(problems=(*reader.problems, f"{why} ({digest[:12]})"), digest=digest)
    return ParsedHooks(tuple(reader.hooks), tuple(reader.problems), digest)


class _Reader:
    """Takes what it understands and says what it does not; one bad entry costs only itself."""

    def __init__(self, origin: str) -> None:
        self.origin = origin
        self.hooks: list[CommandHook] = []
        self.problems: list[str] = []

    def read(self, section: Mapping[str, Any]) -> None:
        for event, groups in section.items():
            if event not in get_args(HookEvent):
                self._say(event, "there is no such event here; its hooks are not run")
            elif not isinstance(groups, list):
                self._say(event, "must be a list")
            else:
                for at, group in enumerate(groups):
                    self._group(cast(HookEvent, event), f"{event}[{at}]", group)

    def _group(self, event: HookEvent, where: str, group: Any) -> None:
        if not isinstance(group, dict) or not isinstance(group.get("hooks"), list):
            self._say(where, "must be an object with a list of hooks")
            return
        matcher = group.get("matcher", "")
        if not isinstance(matcher, str) or not _is_pattern(matcher):
            self._say(where, f"{matcher!r} is no matcher; its hooks are not run")
            return
        for at, entry in enumerate(group["hooks"]):
            self._entry(event, matcher, f"{where}.hooks[{at}]", entry)

    def _entry(self, event: HookEvent, matcher: str, where: str, entry: Any) -> None:
        problem = _entry_problem(entry)
        if problem:
            self._say(where, problem)
            return
        args = entry.get("args")
        hook = CommandHook(
            event,
            matcher,
            HookCommand(entry["command"], tuple(args) if args is not None else None),
            float(entry.get("timeout", HOOK_RULES[event].seconds)),
            self.origin,
        )
        # One command configured twice for one event runs once.
        if hook not in self.hooks:
            self.hooks.append(hook)

    def _say(self, where: str, what: str) -> None:
        self.problems.append(f"{self.origin}: hooks.{where} {what}")


def _entry_problem(entry: Any) -> str:
    if not isinstance(entry, dict):
        return "must be an object"
    if entry.get("type") != "command":
        return f"has type {entry.get('type')!r}; only 'command' is run here"
    if not isinstance(entry.get("command"), str) or not entry["command"].strip():
        return "needs a command"
    if "\0" in entry["command"]:
        return "has a NUL character in its command"
    args = entry.get("args")
    if args is not None and not (isinstance(args, list) and all(isinstance(arg, str) for arg in args)):
        return f"has args {args!r}; allowed is a list of texts"
    seconds = entry.get("timeout", 1)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < 86_400:
        return f"has timeout {seconds!r}; allowed are seconds above 0 and below a day"
    unknown = [name for name in _CONDITIONS if name in entry]
    return f"has a condition ({unknown[0]!r}) that is not known here; it is not run" if unknown else ""


def _is_pattern(matcher: str) -> bool:
    try:
        re.compile(matcher if matcher != "*" else "")
    except re.error:
        return False
    return True
