"""Load hooks from the settings files that the options name, in Claude Code's format (HK-2, CF-4)."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from everturn.decide.options import HookSettings
from everturn.errors import UsageError
from everturn.safe_files import read_file
from everturn.session.hooks.run import Hook, Hooks
from everturn.session.hooks.settings import EVERYTHING, parse_hooks


class HookFile(NamedTuple):
    """A settings file. Hooks in the user's own files are trusted; hooks in a project's file run only if their
    digest is trusted."""

    path: Path
    is_own: bool = True


class LoadedHooks(NamedTuple):
    hooks: tuple[Hook, ...] = ()
    notes: tuple[str, ...] = ()


# What the argument `hooks` takes: hooks in Python, or a value of the section of that name.
HooksArgument = Hooks | HookSettings | Mapping[str, Any] | bool | None


def divide_hooks(given: object, keywords: Mapping[str, Any]) -> tuple[Hooks, dict[str, Any]]:
    """The hooks in Python, and the keywords with the section where that was given under the same name."""
    match given:
        case None:
            return Hooks(), dict(keywords)
        case Hooks():
            return given, dict(keywords)
        case HookSettings() | Mapping() | bool():
            return Hooks(), {**keywords, "hooks": given}
        case other:
            raise UsageError(
                "`hooks` takes Hooks((CallbackHook(...), ...)), or keys of the section hooks; this is "
                f"{other!r:.80}."
            )


def load_hooks(settings: HookSettings, files: Sequence[HookFile] = ()) -> LoadedHooks:
    """Load the hooks of `settings.files`, which count as the user's own, and of further files. A missing file
    is ignored; an unreadable one is reported."""
    if not settings.enabled:
        return LoadedHooks()
    hooks: list[Hook] = []
    notes: list[str] = []
    for file in (*(HookFile(Path(name).expanduser()) for name in settings.files), *files):
        try:
            data = read_file(file.path)
        except FileNotFoundError:
            continue
        except OSError as problem:
            notes.append(f"{file.path} could not be read: {problem.strerror or problem}")
            continue
        trusted = EVERYTHING if file.is_own else settings.trusted
        found = parse_hooks(data, origin=str(file.path), trusted=trusted)
        hooks += found.hooks
        notes += found.problems
    return LoadedHooks(tuple(hooks), tuple(notes))
