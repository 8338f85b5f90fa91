"""Parse hooks in settings files: the `hooks` object of Claude Code's settings (HK-2).

A command in a project's file may have been written by a stranger. It runs only if the user has reviewed and
trusted exactly these hooks. `digest` identifies what was reviewed, so a changed file must be reviewed again.
"""

import hashlib
import re
from collections.abc import Collection, Mapping
from typing import Any, Final, cast, get_args

import msgspec

from everturn.decide.effects import HookEvent
from everturn.session.hooks.rules import HOOK_RULES
from everturn.wire.json_values import as_list, as_mapping

# Trusts every hook; for the user's own files.
EVERYTHING: Final = ("*",)
_PLAIN: Final = re.compile(r"[\w|\- ]*\Z")
# Only so much of a name is matched with a regular expression. Names of tools have at most 128 characters.
_MAX_MATCHED_CHARS: Final = 200
_MAX_REPEATS: Final = 3
_ESCAPED: Final = re.compile(r"\\.", re.DOTALL)
_CLASS: Final = re.compile(r"\[\]?[^\]]{0,200}\]")
_REPEAT: Final = re.compile(r"[*+{]")
_REPEATED_GROUP: Final = re.compile(r"\)[*+{]")
# Fields that limit when a hook runs and that are not supported here; hooks with them do not run.
_CONDITIONS: Final = ("if",)


class HookCommand(msgspec.Struct, frozen=True):
    """A command to run: with `args` a program and its arguments, without them a shell command line."""

    command: str
    args: tuple[str, ...] | None = None

    @property
    def argv(self) -> tuple[str, ...]:
        # The payload is never part of the command line; it is sent to standard input.
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
    """Whether a matcher accepts a value. A matcher is a list of names separated by `|`, a regular expression
    if it has other characters, or empty or `*` for everything."""
    if matcher in ("", "*"):
        return True
    if _PLAIN.match(matcher):
        return value in (name.strip() for name in matcher.split("|"))
    try:
        return re.fullmatch(matcher, value[:_MAX_MATCHED_CHARS]) is not None
    except re.error:
        return False


def parse_hooks(data: bytes, *, origin: str, trusted: Collection[str]) -> ParsedHooks:
    """Parse the command hooks of a settings file. `trusted` holds the digests that the user trusts."""
    try:
        settings = as_mapping(msgspec.json.decode(data)) or {}
    except (msgspec.MsgspecError, RecursionError) as problem:
        return ParsedHooks(problems=(f"{origin} is not valid JSON ({problem}); none of its hooks run",))
    if settings.get("hooks") is None:
        return ParsedHooks()
    section = as_mapping(settings["hooks"])
    if section is None:
        return ParsedHooks(problems=(f"{origin}: hooks must be an object",))
    digest = hashlib.sha256(msgspec.json.encode(section, order="sorted")).hexdigest()
    reader = _Reader(origin)
    reader.read(section)
    if reader.hooks and digest not in trusted and "*" not in trusted:
        why = f"{origin}: {len(reader.hooks)} hooks do not run, because they are not trusted"
        how = f"to trust them, add their digest to hooks.trusted: {digest}"
        return ParsedHooks(problems=(*reader.problems, f"{why}; {how}"), digest=digest)
    return ParsedHooks(tuple(reader.hooks), tuple(reader.problems), digest)


class _Reader:
    """Collects the valid hooks and reports the others; one bad entry does not affect the rest."""

    def __init__(self, origin: str) -> None:
        self.origin = origin
        self.hooks: list[CommandHook] = []
        self.problems: list[str] = []

    def read(self, section: Mapping[str, Any]) -> None:
        for event, groups in section.items():
            if event not in get_args(HookEvent):
                self._report(event, "is not a known event; its hooks do not run")
            elif (entries := as_list(groups)) is None:
                self._report(event, "must be a list")
            else:
                for number, group in enumerate(entries):
                    self._group(cast(HookEvent, event), f"{event}[{number}]", group)

    def _group(self, event: HookEvent, where: str, group: Any) -> None:
        fields = as_mapping(group) or {}
        entries = as_list(fields.get("hooks"))
        if entries is None:
            self._report(where, "must be an object with a list of hooks")
            return
        matcher = fields.get("matcher", "")
        if not isinstance(matcher, str) or not _is_pattern(matcher):
            self._report(where, f"{matcher!r} is not a valid matcher; its hooks do not run")
            return
        if could_be_slow(matcher):
            self._report(
                where,
                f"{matcher!r} could take very long to match, because it repeats a group or has more than "
                f"{_MAX_REPEATS} repetitions; its hooks do not run. Separate names with |, or use .* once",
            )
            return
        for number, entry in enumerate(entries):
            self._entry(event, matcher, f"{where}.hooks[{number}]", entry)

    def _entry(self, event: HookEvent, matcher: str, where: str, given: Any) -> None:
        entry = as_mapping(given)
        if entry is None:
            self._report(where, "must be an object")
            return
        if problem := _entry_problem(entry):
            self._report(where, problem)
            return
        args = entry.get("args")
        hook = CommandHook(
            event,
            matcher,
            HookCommand(entry["command"], tuple(args) if args is not None else None),
            float(entry.get("timeout", HOOK_RULES[event].seconds)),
            self.origin,
        )
        # A command that is configured twice for an event runs once.
        if hook not in self.hooks:
            self.hooks.append(hook)

    def _report(self, where: str, what: str) -> None:
        self.problems.append(f"{self.origin}: hooks.{where} {what}")


def _entry_problem(entry: Mapping[str, Any]) -> str:
    """Why this entry cannot be used; empty if it can."""
    if entry.get("type") != "command":
        return f"has type {entry.get('type')!r}; only 'command' is supported"
    if not isinstance(entry.get("command"), str) or not entry["command"].strip():
        return "needs a command"
    if "\0" in entry["command"]:
        return "has a NUL character in its command"
    args = entry.get("args")
    if args is not None and not all(isinstance(arg, str) for arg in as_list(args) or [None]):
        return f"has args {args!r}; allowed is a list of texts"
    seconds = entry.get("timeout", 1)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < 86_400:
        return f"has timeout {seconds!r}; allowed are seconds above 0 and below 86,400 (a day)"
    unknown = [name for name in _CONDITIONS if name in entry]
    return f"has a condition ({unknown[0]!r}) that is not supported; it does not run" if unknown else ""


def could_be_slow(matcher: str) -> bool:
    """Whether a matcher could take more than a moment for a name: it repeats a group, or repeats often.

    Without either, the time is at most a small power of the length, which is limited.
    """
    plain = _CLASS.sub("x", _ESCAPED.sub("x", matcher))
    return _REPEATED_GROUP.search(plain) is not None or len(_REPEAT.findall(plain)) > _MAX_REPEATS


def _is_pattern(matcher: str) -> bool:
    try:
        re.compile(matcher if matcher != "*" else "")
    except re.error:
        return False
    return True
