"""Drivers: loops that run a flow and have a handler perform each effect.

The same flow runs under `drive` and `drive_async`. Tests replace the handler, for example with one that uses
virtual time or injects faults; the flow is unchanged.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

from everturn.decide.effects import (
    AskModel,
    Effect,
    EffectResult,
    Emit,
    FileRead,
    Flow,
    HookOutcome,
    ModelAnswer,
    ModelFailure,
    ReadFiles,
    RunHooks,
    WriteFile,
)

T = TypeVar("T")


class EffectHandler(Protocol):
    """One method for each effect that a flow can ask for. Failures of the model, of files that are read and
    of hooks are returned, not raised."""

    def write_file(self, effect: WriteFile) -> str: ...
    def read_files(self, effect: ReadFiles) -> tuple[FileRead, ...]: ...
    def ask_model(self, effect: AskModel) -> ModelAnswer | ModelFailure: ...
    def run_hooks(self, effect: RunHooks) -> HookOutcome: ...
    def emit(self, effect: Emit) -> None: ...


class AsyncEffectHandler(Protocol):
    """The same with awaitable results."""

    def write_file(self, effect: WriteFile) -> Awaitable[str]: ...
    def read_files(self, effect: ReadFiles) -> Awaitable[tuple[FileRead, ...]]: ...
    def ask_model(self, effect: AskModel) -> Awaitable[ModelAnswer | ModelFailure]: ...
    def run_hooks(self, effect: RunHooks) -> Awaitable[HookOutcome]: ...
    def emit(self, effect: Emit) -> Awaitable[None]: ...


# Called before each effect and at the end: records that the flow appended become durable before an effect
# depends on them.
Interceptor = Callable[[], None]


def drive(flow: Flow[T], handler: EffectHandler, intercept: Interceptor | None = None) -> T:
    """Run a flow to its end, performing each effect as it comes."""
    answer: EffectResult = None
    while True:
        try:
            effect = flow.send(answer)
        except StopIteration as done:
            if intercept is not None:
                intercept()
            return done.value
        if intercept is not None:
            intercept()
        answer = perform(effect, handler)


async def drive_async(flow: Flow[T], handler: AsyncEffectHandler, intercept: Interceptor | None = None) -> T:
    """As `drive`, awaiting each effect."""
    answer: EffectResult = None
    while True:
        try:
            effect = flow.send(answer)
        except StopIteration as done:
            if intercept is not None:
                intercept()
            return done.value
        if intercept is not None:
            intercept()
        answer = await perform(effect, handler)


def perform(effect: Effect, handler: EffectHandler | AsyncEffectHandler) -> Any:
    """Call the handler's method for this effect; the result is awaitable if the handler is asynchronous. The
    flow checks its type (`decide/effects.py`)."""
    match effect:
        case WriteFile():
            return handler.write_file(effect)
        case ReadFiles():
            return handler.read_files(effect)
        case AskModel():
            return handler.ask_model(effect)
        case RunHooks():
            return handler.run_hooks(effect)
        case Emit():
            return handler.emit(effect)
