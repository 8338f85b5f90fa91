"""A world in which one thing fails: the n-th effect is answered with a failure, or raises.

Wrapped around any world, sync or async; the flow that is driven cannot tell.
"""

from typing import Any, Literal

from everturn.decide.effects import (
    AskModel,
    Effect,
    Emit,
    FileRead,
    HookOutcome,
    ModelFailure,
    ReadFiles,
    RunHooks,
    WriteFile,
)
from everturn.errors import StoreError
from everturn.session.drivers import perform

# answers: what a world is allowed to say. raises: what comes of a disk that is full. interrupts: Ctrl-C.
How = Literal["answers", "blocks", "cancels", "raises", "interrupts"]


def failed(effect: Effect, how: How) -> Any:
    """The failure that fits the effect."""
    if how == "interrupts":
        raise KeyboardInterrupt
    match effect:
        case AskModel():
            kind = "cancelled" if how == "cancels" else "api_error"
            return ModelFailure(kind, "the line is dead")
        case ReadFiles(paths=paths):
            return tuple(FileRead(path, problem="it could not be read") for path in paths)
        case RunHooks():
            if how == "blocks":
                return HookOutcome(blocked="not now")
            return HookOutcome(problems=("the hook was late",))
        case WriteFile(name=name):
            raise StoreError(f"{name} could not be written: No space left on device.")
        case Emit():
            return None


class Broken:
    """Fails at the n-th effect, counted from 1; never where n is 0."""

    def __init__(self, world: Any, at: int = 0, how: How = "answers") -> None:
        self._world, self._at, self._how = world, at, how
        self.done: list[Effect] = []

    def __getattr__(self, name: str) -> Any:
        return self._do

    def _do(self, effect: Effect) -> Any:
        self.done.append(effect)
        if len(self.done) == self._at:
            return failed(effect, self._how)
        return perform(effect, self._world)


class AsyncBroken:
    """The same for whoever awaits."""

    def __init__(self, world: Any, at: int = 0, how: How = "answers") -> None:
        self._broken = Broken(world, at, how)

    @property
    def done(self) -> list[Effect]:
        return self._broken.done

    def __getattr__(self, name: str) -> Any:
        return self._do

    async def _do(self, effect: Effect) -> Any:
        return self._broken._do(effect)
