"""Run all hooks of an event in parallel, each with a timeout; outcomes are merged in the hooks' order.

Failures of a hook are reported, never raised (HK-3). Python cannot kill a callback that never returns; after
its timeout it stays behind in a daemon thread, which does not delay the exit of the program.
"""

import asyncio
import inspect
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from everturn.decide.effects import HookEvent, HookOutcome, RunHooks
from everturn.session.hooks.commands import run_command
from everturn.session.hooks.rules import HOOK_RULES, HookOutput, merge_outcomes, read_outcome
from everturn.session.hooks.settings import CommandHook, matches
from everturn.session.valid_text import make_encodable
from everturn.wire.json_values import as_mapping

Payload = Mapping[str, Any]
CallbackResult = str | Mapping[str, Any] | None
Callback = Callable[[Payload], CallbackResult | Awaitable[CallbackResult]]


class CallbackHook(msgspec.Struct, frozen=True):
    """A Python callable. It gets the payload and returns a text, a mapping as a command prints, or None."""

    event: HookEvent
    call: Callback
    matcher: str = ""
    seconds: float = 0
    label: str = ""

    @property
    def name(self) -> str:
        return self.label or getattr(self.call, "__qualname__", type(self.call).__name__)


Hook = CommandHook | CallbackHook

# A command has its own timeout; this many seconds more are allowed for its result to arrive.
LATE: Final = 1.0


class Hooks(msgspec.Struct, frozen=True):
    """The hooks of a session in order, and the fields that are added to every payload."""

    hooks: tuple[Hook, ...] = ()
    # Fields of every payload: session_id, transcript_path, cwd, permission_mode.
    told: Payload = {}
    environment: Mapping[str, str] = {}

    def run(self, effect: RunHooks) -> HookOutcome:
        return run_hooks(effect, self)

    async def run_async(self, effect: RunHooks) -> HookOutcome:
        return await run_hooks_async(effect, self)

    def of(self, effect: RunHooks) -> list[Hook]:
        value = str(effect.payload.get(HOOK_RULES[effect.event].matches, ""))
        return [hook for hook in self.hooks if hook.event == effect.event and matches(hook.matcher, value)]


def run_hooks(effect: RunHooks, hooks: Hooks) -> HookOutcome:
    """Run every hook of this event; blocks until all have ended or timed out."""
    chosen = hooks.of(effect)
    running = [_Running(hook, effect, hooks) for hook in chosen]
    began = time.monotonic()
    return merge_outcomes([each.joined(began) for each in running])


async def run_hooks_async(effect: RunHooks, hooks: Hooks) -> HookOutcome:
    """The same on an event loop. An async callback runs as a task of that loop."""
    return merge_outcomes(
        list(await asyncio.gather(*(_one(hook, effect, hooks) for hook in hooks.of(effect))))
    )


async def _one(hook: Hook, effect: RunHooks, hooks: Hooks) -> HookOutcome:
    if isinstance(hook, CallbackHook) and inspect.iscoroutinefunction(hook.call):
        return read_outcome(effect.event, hook.name, await _awaited(hook, _payload(effect, hooks)))
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    running = _Running(hook, effect, hooks, tell=lambda: loop.call_soon_threadsafe(ended.set))
    try:
        await asyncio.wait_for(ended.wait(), _limit(hook))
    except TimeoutError:
        return running.too_late()
    return running.joined(time.monotonic())


async def _awaited(hook: CallbackHook, payload: Payload) -> HookOutput:
    task = asyncio.ensure_future(_call(hook, payload))
    try:
        await asyncio.wait({task}, timeout=_seconds(hook))
    finally:
        # Also if this coroutine is cancelled. A callback that ignores the cancellation is not waited for.
        task.cancel()
    return task.result() if task.done() and not task.cancelled() else _too_long(hook)


async def _call(hook: CallbackHook, payload: Payload) -> HookOutput:
    try:
        return _spoken(await hook.call(payload))  # type: ignore[misc]
    except Exception as problem:
        return _raised(problem)


class _Running:
    """One hook, running in its own thread."""

    def __init__(
        self, hook: Hook, effect: RunHooks, hooks: Hooks, *, tell: Callable[[], object] = lambda: None
    ) -> None:
        self.hook = hook
        self.event: HookEvent = effect.event
        self._outcome: HookOutcome | None = None
        self._tell = tell
        self._payload = _payload(effect, hooks)
        self._hooks = hooks
        self._thread = threading.Thread(target=self._run, name=f"hook {hook.name}", daemon=True)
        self._thread.start()

    def joined(self, began: float) -> HookOutcome:
        self._thread.join(max(0, began + _limit(self.hook) - time.monotonic()))
        return self._outcome or self.too_late()

    def too_late(self) -> HookOutcome:
        return read_outcome(self.event, self.hook.name, _too_long(self.hook))

    def _run(self) -> None:
        try:
            self._outcome = read_outcome(self.event, self.hook.name, self._ran())
        except BaseException as problem:
            # SystemExit too: a hook must not end the program.
            self._outcome = read_outcome(self.event, self.hook.name, _raised(problem))
        try:
            self._tell()
        except RuntimeError:
            # The event loop is closed; nothing waits for this hook.
            return

    def _ran(self) -> HookOutput:
        if isinstance(self.hook, CommandHook):
            cwd = str(self._payload.get("cwd", ""))
            payload = msgspec.json.encode(make_encodable(self._payload), enc_hook=str)
            return run_command(self.hook, payload, cwd=cwd, environment=self._hooks.environment)
        returned = self.hook.call(self._payload)
        if inspect.isawaitable(returned):
            returned = asyncio.run(_result_of(returned))
        return _spoken(returned)


async def _result_of(awaitable: Awaitable[CallbackResult]) -> CallbackResult:
    return await awaitable


def _payload(effect: RunHooks, hooks: Hooks) -> Payload:
    return {**hooks.told, **effect.payload, "hook_event_name": effect.event}


def _seconds(hook: Hook) -> float:
    return hook.seconds or HOOK_RULES[hook.event].seconds


def _limit(hook: Hook) -> float:
    return _seconds(hook) + (LATE if isinstance(hook, CommandHook) else 0)


def _spoken(value: object) -> HookOutput:
    if value is None:
        return HookOutput()
    if isinstance(value, str):
        return HookOutput(value)
    if (fields := as_mapping(value)) is not None:
        return HookOutput(dict(fields))
    return HookOutput(problems=(f"returned a {type(value).__name__}; allowed are a text, a mapping or None",))


def _raised(problem: BaseException) -> HookOutput:
    """Only the type: the message of an exception may hold private content of the payload."""
    return HookOutput(problems=(f"raised {type(problem).__name__}",))


def _too_long(hook: Hook) -> HookOutput:
    return HookOutput(problems=(f"took longer than {_seconds(hook):g} s and was abandoned",))


def add_hooks(hooks: Hooks, more: Sequence[Hook]) -> Hooks:
    """A copy with further hooks appended."""
    return msgspec.structs.replace(hooks, hooks=merge_hooks(hooks.hooks, more)) if more else hooks


def merge_hooks(*groups: Sequence[Hook]) -> tuple[Hook, ...]:
    """Merge groups of hooks in order; a command that occurs twice for the same event runs once."""
    found: dict[tuple[object, ...], Hook] = {}
    for hook in (hook for group in groups for hook in group):
        is_command = isinstance(hook, CommandHook)
        key = (hook.event, hook.matcher, hook.run) if is_command else (hook.event, hook.matcher, id(hook))
        found.setdefault(key, hook)
    return tuple(found.values())
