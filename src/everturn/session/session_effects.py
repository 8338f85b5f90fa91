"""The effect handler of a session: adds events, costs and status reports to `LocalEffectHandler`.

Summaries are streamed if possible, so that status events can report their progress (CP-7).
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from everturn.decide.effects import AskModel, Emit, HookOutcome, ModelAnswer, ModelFailure, RunHooks
from everturn.decide.events import Compacting, EventContext, make_hook_trouble
from everturn.engine.wire import Wire
from everturn.session.effect_handler import STATUS_SECONDS, BlobWriter, LocalEffectHandler
from everturn.session.files import Roots
from everturn.session.hooks.run import Hooks
from everturn.session.upstream import RawResponse, Send, Stream, as_stream


class SessionCallbacks:
    """Callbacks of the handler. `tell` gets every event, `paid` the answer of a summary call, `remark` the
    messages of hooks to the user. `asks` runs before a summary call, `cancels` if an interrupt ended it."""

    def __init__(
        self,
        tell: Callable[[msgspec.Struct], None],
        paid: Callable[[AskModel, ModelAnswer], None],
        moment: Callable[[], EventContext],
        asks: Callable[[], None] = lambda: None,
        cancels: Callable[[], None] = lambda: None,
        remark: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.tell, self.paid, self.moment = tell, paid, moment
        self.asks, self.cancels, self.remark = asks, cancels, remark


class SessionEffectHandler(LocalEffectHandler):
    def __init__(
        self,
        send: Send,
        folder: Path,
        to: SessionCallbacks,
        *,
        stream: Stream | None = None,
        readable: Roots,
        hooks: Hooks,
        write: BlobWriter,
        wire: Wire,
        status_seconds: float = STATUS_SECONDS,
    ) -> None:
        super().__init__(
            self._send_counting,
            folder,
            readable=readable,
            hooks=hooks,
            listen=to.tell,
            waiting=self._report_waiting,
            status_seconds=status_seconds,
            write=write,
            wire=wire,
        )
        self._to = to
        self._pieces = stream or as_stream(send)
        self._characters = 0
        self._began = 0.0
        # Whether an interrupt during a summary call also ends the surrounding call, or only the compaction.
        self.interrupt_ends_call = True

    def ask_model(self, effect: AskModel) -> ModelAnswer | ModelFailure:
        self._characters, self._began = 0, time.monotonic()
        self._to.asks()
        answer = super().ask_model(effect)
        if isinstance(answer, ModelAnswer):
            self._to.paid(effect, answer)
        elif answer.kind == "cancelled" and self.interrupt_ends_call:
            self._to.cancels()
            raise KeyboardInterrupt
        return answer

    def run_hooks(self, effect: RunHooks) -> HookOutcome:
        outcome = super().run_hooks(effect)
        trouble = make_hook_trouble(effect.event, outcome, self._to.moment())
        if trouble is not None:
            self.emit(Emit(trouble))
        for message in outcome.messages:
            self._to.remark(message)
        return outcome

    def _send_counting(self, body: bytes, betas: Sequence[str]) -> RawResponse:
        pieces = self._pieces(body, betas)
        while True:
            try:
                self._characters += len(next(pieces))
            except StopIteration as done:
                return done.value

    def _report_waiting(self, effect: AskModel) -> None:
        self.emit(
            Emit(
                Compacting(
                    moment=self._to.moment(),
                    way=effect.strategy,
                    seconds=time.monotonic() - self._began,
                    characters=self._characters,
                )
            )
        )
