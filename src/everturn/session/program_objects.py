"""Objects that a program passes to a session or an adapter: refused where they cannot be what they stand for.

A wrong one would fail later, in the middle of a turn. In an adapter it would fail in every request, and the
caller's own would be sent: nothing would be managed, and only a line in the log would say so.
"""

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final, NoReturn, cast, get_args

from everturn.errors import UsageError
from everturn.measure.capabilities import Capabilities
from everturn.session.hooks.rules import HOOK_RULES
from everturn.session.hooks.run import Hook, Hooks
from everturn.session.tools import Tool
from everturn.view.system_prompt import SystemPromptSections

_HOOKS: Final[tuple[type, ...]] = get_args(Hook)


def check_program_objects(*, hooks: Hooks, listen: Any, estimator: Any, capabilities: Any) -> None:
    """Any: the values are those of a program that no type checker has read."""
    _check_callable("listen", listen, "which gets every event")
    if not (estimator is None or callable(getattr(estimator, "text", None))):
        refuse("estimator", "a `LocalTokenizer` or `ProviderCounts`", estimator)
    if not (capabilities is None or isinstance(capabilities, Capabilities)):
        refuse("capabilities", "a row of `everturn.PROVIDERS`, or a changed copy", capabilities)
    for hook in hooks.hooks:
        if not isinstance(hook, _HOOKS):
            refuse("hooks", "a `Hooks` of `CallbackHook`s", hook)
        if hook.event not in HOOK_RULES:
            refuse("hooks", "hooks of known events", hook.event, HOOK_RULES)


def to_tools(given: Any) -> tuple[Tool, ...]:
    if not isinstance(given, Iterable) or isinstance(given, str | Mapping):
        refuse("tools", "a list of `Tool`", given)
    tools: list[Tool] = []
    for tool in cast("Iterable[object]", given):
        if not isinstance(tool, Tool):
            refuse("tools", "a list of `Tool`, such as Tool({'name': ..., 'input_schema': ...}, run)", tool)
        tools.append(tool)
    return tuple(tools)


def check_session_objects(*, system: Any, client: Any, send: Any, permit: Any, may_read: Any) -> None:
    """What only a session takes, but its tools."""
    if not isinstance(system, str | SystemPromptSections):
        refuse("system", "a text, or `Sections`", system)
    if type(client).__name__.startswith("Async"):
        refuse("client", "a client that is not asynchronous; an AsyncSession calls it in a thread", client)
    if send is not None:
        _check_callable("send", send, "which gets body and betas and returns a `RawResponse`")
    _check_callable("permit", permit, "which gets a call and the reason, and returns whether to make it")
    _check_callable("may_read", may_read, "which gets a path and returns whether it may be read")


def check_text(name: str, given: object, what: str) -> None:
    """For an argument of a method; the message names the value itself."""
    if not isinstance(given, str):
        raise UsageError(f"`{name}` takes {what}; this is {given!a:.80}.")


def check_count(name: str, given: object, least: int) -> None:
    if not isinstance(given, int) or given < least:
        raise UsageError(f"`{name}` takes a whole number from {least} on; this is {given!a:.80}.")


def _check_callable(name: str, given: Any, what: str) -> None:
    if not callable(given):
        refuse(name, f"a callable, {what}", given)


def refuse(name: str, takes: str, given: Any, known: Collection[str] = ()) -> NoReturn:
    near = get_close_matches(given, known, n=1) if isinstance(given, str) else []
    shown = f"{given!r:.80}" if isinstance(given, str) else f"a value of type {type(given).__name__}"
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise UsageError(f"`{name}` takes {takes}; this is {shown}.{hint}")


def to_folders(given: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[str]:
    """One folder, or several. A text is one: its characters would be folders too, the first of them `/`."""
    if isinstance(given, str | os.PathLike):
        return [os.fspath(given)]
    return [os.fspath(each) for each in given]
