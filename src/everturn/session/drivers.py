"""Who performs what a flow asks for: a world with a way to do each effect, and a loop around it.

The same flow runs under `drive` and `adrive`. A world that is slow, virtual or broken on purpose is just
another world; the flow cannot tell.
"""

from collections.abc import Awaitable, Generator
from typing import Any, Protocol, TypeVar

from everturn.decide.effects import (
    AskModel,
    Effect,
    Emit,
    FileRead,
    HookOutcome,
    ModelAnswer,
    ModelFailure,
    ReadFiles,
    RunHooks,
    WriteFile,
)

T = TypeVar("T")
Flow = Generator[Effect, Any, T]


class EffectHandler(Protocol):
    """What a flow can ask for, one method each. None of them raises: a failure is an answer too."""

    def write_file(self, effect: WriteFile) -> str: ...
    def read_files(self, effect: ReadFiles) -> tuple[FileRead, ...]: ...
    def ask_model(self, effect: AskModel) -> ModelAnswer | ModelFailure: ...
    def run_hooks(self, effect: RunHooks) -> HookOutcome: ...
    def emit(self, effect: Emit) -> None: ...


class AsyncEffectHandler(Protocol):
    """The same, for those who wait without blocking."""

    def write_file(self, effect: WriteFile) -> Awaitable[str]: ...
    def read_files(self, effect: ReadFiles) -> Awaitable[tuple[FileRead, ...]]: ...
    def ask_model(self, effect: AskModel) -> Awaitable[ModelAnswer | ModelFailure]: ...
    def run_hooks(self, effect: RunHooks) -> Awaitable[HookOutcome]: ...
    def emit(self, effect: Emit) -> Awaitable[None]: ...


def drive(flow: Flow[T], world: EffectHandler) -> T:
    """Run a flow to its end, performing each effect where it stands."""
    answer: Any = None
    while True:
        try:
            effect = flow.send(answer)
        except StopIteration as done:
            return done.value
        answer = perform(effect, world)


async def drive_async(flow: Flow[T], world: AsyncEffectHandler) -> T:
    answer: Any = None
    while True:
        try:
            effect = flow.send(answer)
        except StopIteration as done:
            return done.value
        answer = await perform(effect, world)


def perform(effect: Effect, world: Any) -> Any:
    """The one place where an effect finds its method."""
    match effect:
        case WriteFile():
            return world.write_file(effect)
        case ReadFiles():
            return world.read_files(effect)
        case AskModel():
            return world.ask_model(effect)
        case RunHooks():
            return world.run_hooks(effect)
        case Emit():
            return world.emit(effect)
