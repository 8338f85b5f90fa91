"""The real world, as flows see it: files in a folder, a provider, hooks, and whoever listens.

Nothing here raises into a flow. A provider that fails, a disk that is full and a hook that hangs are answers,
each with its reason.
"""

from collections.abc import Callable
from pathlib import Path
from threading import Event as Stop
from threading import Thread
from typing import Final

import msgspec

from everturn.decide.effects import (
    AskModel,
    Emit,
    FailureKind,
    FileRead,
    HookOutcome,
    ModelAnswer,
    ModelFailure,
    ReadFiles,
    RunHooks,
    WriteFile,
)
from everturn.errors import StoreError
from everturn.history.records import Usage
from everturn.session.files import Roots, read_files, resolve_roots
from everturn.session.hooks.run import Hooks
from everturn.session.private_files import write_private_file
from everturn.session.upstream import Send, UpstreamError, clamp_usage, parse_message
from everturn.wire.anthropic import compaction_usage
from everturn.wire.overflow import parse_overflow

# How often somebody who waits for a summary is told that it is still being written (CP-7).
STATUS_SECONDS: Final = 30.0

Listener = Callable[[msgspec.Struct], None]


def _nobody(_: msgspec.Struct) -> None:
    """Where nobody listens."""


class LocalEffectHandler:
    def __init__(
        self,
        send: Send,
        folder: Path,
        *,
        readable: Roots | None = None,
        hooks: Hooks | None = None,
        listen: Listener = _nobody,
        waiting: Callable[[AskModel], None] = lambda _: None,
        status_seconds: float = STATUS_SECONDS,
    ) -> None:
        """`waiting` is called while a model is being waited for, at least every `status_seconds`."""
        self._send = send
        self._folder = folder
        self._readable = readable or resolve_roots((folder,))
        self._hooks = hooks or Hooks()
        self._listen = listen
        self._waiting = waiting
        self._status_seconds = status_seconds

    def write_file(self, effect: WriteFile) -> str:
        """Raises `StoreError`: a result that is not safe elsewhere must not leave the context."""
        path = self._folder / Path(effect.name).name
        try:
            write_private_file(self._folder, path.name, effect.text.encode("utf-8", "surrogatepass"))
        except OSError as problem:
            raise StoreError(f"{path} could not be written: {problem.strerror or problem}.") from problem
        return str(path)

    def read_files(self, effect: ReadFiles) -> tuple[FileRead, ...]:
        return read_files(effect, self._readable)

    def ask_model(self, effect: AskModel) -> ModelAnswer | ModelFailure:
        done = Stop()
        ticking = Thread(target=self._tick, args=(effect, done), daemon=True)
        ticking.start()
        try:
            return self._asked(effect)
        finally:
            done.set()
            ticking.join()

    def run_hooks(self, effect: RunHooks) -> HookOutcome:
        return self._hooks.run(effect)

    def emit(self, effect: Emit) -> None:
        self._listen(effect.event)

    def _tick(self, effect: AskModel, done: Stop) -> None:
        self._waiting(effect)
        while not done.wait(self._status_seconds):
            self._waiting(effect)

    def _asked(self, effect: AskModel) -> ModelAnswer | ModelFailure:
        try:
            answered = self._send(effect.request.to_bytes(), effect.betas)
            response = parse_message(answered)
        except UpstreamError as problem:
            return to_model_failure(problem)
        except KeyboardInterrupt:
            return ModelFailure("cancelled", "cancelled while the summary was being written")
        usage = response.reply.usage or Usage()
        if effect.way == "provider":
            usage = compaction_usage(answered.body)
        return ModelAnswer(response.blocks, response.reply.stop_reason, clamp_usage(usage))


def to_model_failure(problem: UpstreamError) -> ModelFailure:
    """What an error of the provider means for a flow."""
    too_long = parse_overflow(problem.message)
    if too_long is not None:
        return ModelFailure("too_long", problem.message, too_long)
    kind: FailureKind = "timeout" if problem.status in (408, 504) else "api_error"
    return ModelFailure(kind, problem.message or str(problem))
