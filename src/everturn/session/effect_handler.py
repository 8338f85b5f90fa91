"""The effect handler for real runs: files in a folder, provider calls, hooks and event listeners.

A failing provider, an unreadable file and a hanging hook are returned as results with a reason, not raised.
The exception is `write_file`, which raises `StoreError`.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
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
from everturn.engine.wire import ANTHROPIC_WIRE, Wire
from everturn.errors import UpstreamError
from everturn.session.files import Roots, read_files, resolve_roots
from everturn.session.hooks.run import Hooks
from everturn.session.private_files import write_blob
from everturn.session.upstream import Send, clamp_usage, parse_reply
from everturn.session.valid_text import replace_lone_surrogates

# Interval of the status events while a summary is being written (CP-7).
STATUS_SECONDS: Final = 30.0

Listener = Callable[[msgspec.Struct], None]
# Stores bytes under a name and returns the path they can be read at.
BlobWriter = Callable[[str, bytes], str]


def _ignore(_: msgspec.Struct) -> None:
    """The default listener: does nothing."""


class LocalEffectHandler:
    def __init__(
        self,
        send: Send,
        folder: Path,
        *,
        readable: Roots | None = None,
        hooks: Hooks | None = None,
        listen: Listener = _ignore,
        waiting: Callable[[AskModel], None] = lambda _: None,
        status_seconds: float = STATUS_SECONDS,
        wire: Wire = ANTHROPIC_WIRE,
        write: BlobWriter | None = None,
    ) -> None:
        """Tool results that leave the context are written into `folder`, or by `write` if a store keeps them.
        `waiting` is called when a model call begins and every `status_seconds` until it ends."""
        self._send = send
        self._wire = wire
        self._write_blob = write or partial(write_blob, folder)
        self._folder = folder
        self._readable = readable
        self._hooks = hooks or Hooks()
        self._listen = listen
        self._waiting = waiting
        self._status_seconds = status_seconds

    def write_file(self, effect: WriteFile) -> str:
        """Raises `StoreError`: a result that could not be stored must not be removed from the context."""
        path = self._write_blob(effect.name, effect.text.encode("utf-8", "surrogatepass"))
        # The path is recorded and told to the model.
        return replace_lone_surrogates(path)

    def read_files(self, effect: ReadFiles) -> tuple[FileRead, ...]:
        return read_files(effect, self._readable or resolve_roots((self._folder,)))

    def ask_model(self, effect: AskModel) -> ModelAnswer | ModelFailure:
        with self.ticking(effect):
            return self._asked(effect)

    @contextmanager
    def ticking(self, effect: AskModel) -> Generator[None]:
        """Call `waiting` at regular intervals during a model call (CP-7)."""
        done = Stop()
        ticker = Thread(target=self._tick, args=(effect, done), daemon=True)
        ticker.start()
        try:
            yield
        finally:
            done.set()
            ticker.join()

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
            response = parse_reply(answered, self._wire).response
        except UpstreamError as problem:
            return to_model_failure(problem, self._wire)
        except KeyboardInterrupt:
            return ModelFailure("cancelled", "cancelled while the summary was being written")
        usage = self._wire.summary_usage(answered.body, by_provider=effect.strategy == "provider")
        return ModelAnswer(
            response.blocks, response.reply.stop_reason, clamp_usage(usage), response.reply.model
        )


def to_model_failure(problem: UpstreamError, wire: Wire = ANTHROPIC_WIRE) -> ModelFailure:
    """Translate a provider error into the failure that a flow handles."""
    too_long = wire.parse_overflow(problem.message)
    if too_long is not None:
        return ModelFailure("too_long", problem.message, too_long)
    kind: FailureKind = "timeout" if problem.status in (408, 504) else "api_error"
    return ModelFailure(kind, problem.message or str(problem))
