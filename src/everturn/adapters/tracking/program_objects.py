"""Objects that a program passes to an adapter: refused where they cannot be what they stand for.

A wrong one would fail in every request, and an adapter then sends the caller's own: nothing would be managed,
and only a line in the log would say so.
"""

import os
from collections.abc import Collection, Sequence
from difflib import get_close_matches
from typing import Any, Final, NoReturn, get_args

from everturn.adapters.tracking.caller_request import BreakpointOwner
from everturn.errors import UsageError
from everturn.measure.capabilities import Capabilities
from everturn.session.hooks.rules import HOOK_RULES
from everturn.session.hooks.run import Hook, Hooks

_OWNERS: Final[tuple[str, ...]] = get_args(BreakpointOwner)
_HOOKS: Final[tuple[type, ...]] = get_args(Hook)


def check_program_objects(
    *, breakpoints: Any, hooks: Hooks, listen: Any, estimator: Any, capabilities: Any
) -> None:
    """Any: the values are those of a program that no type checker has read."""
    if breakpoints not in _OWNERS:
        _refuse("breakpoints", f"one of {', '.join(map(repr, _OWNERS))}", breakpoints, _OWNERS)
    if not callable(listen):
        _refuse("listen", "a callable, which gets every event", listen)
    if not (estimator is None or callable(getattr(estimator, "text", None))):
        _refuse("estimator", "a `LocalTokenizer` or `ProviderCounts`", estimator)
    if not isinstance(capabilities, Capabilities):
        _refuse("capabilities", "a row of `everturn.PROVIDERS`, or a changed copy", capabilities)
    _check_hooks(hooks)


def _check_hooks(hooks: Hooks) -> None:
    for hook in hooks.hooks:
        if not isinstance(hook, _HOOKS):
            _refuse("hooks", "a `Hooks` of `CallbackHook`s", hook)
        if hook.event not in HOOK_RULES:
            _refuse("hooks", "hooks of known events", hook.event, HOOK_RULES)


def _refuse(name: str, takes: str, given: Any, known: Collection[str] = ()) -> NoReturn:
    near = get_close_matches(given, known, n=1) if isinstance(given, str) else []
    shown = repr(given) if isinstance(given, str) else f"a {type(given).__name__}"
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise UsageError(f"`{name}` takes {takes}; this is {shown}.{hint}")


def to_folders(readable: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[str]:
    """One folder, or several. A text is one: its characters would be folders too, the first of them `/`."""
    if isinstance(readable, str | os.PathLike):
        return [os.fspath(readable)]
    return [os.fspath(each) for each in readable]
