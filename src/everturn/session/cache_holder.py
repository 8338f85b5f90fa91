"""Holds: keeps the provider's cache alive while nobody speaks (EC-2, EC-11).

What a hold sends and whether it is worth its price is decided beforehand, as values (`engine/holds.py`). Here
is the waiting: one thread per pause, started after a reply and cancelled by the next call and by `close`. The
conversation's thread never waits for it: what a hold has cost is collected before the next request, and a
hold that is under way then is collected after it.
"""

import threading
from collections.abc import Callable
from datetime import datetime

import msgspec

from everturn.decide.economy.pauses import HOUR
from everturn.decide.events import CacheHeld, Event, EventContext
from everturn.engine import Conversation
from everturn.engine.holds import PlannedHold
from everturn.errors import UpstreamError
from everturn.history.records import Usage
from everturn.session.upstream import Send, clamp_usage, parse_reply

# Waits so many seconds, or until the event is set; returns whether it was set.
Wait = Callable[[threading.Event, float], bool]


class HeldCall(msgspec.Struct, frozen=True):
    """One hold that was sent: when, and its usage; or why it failed."""

    at: datetime
    usage: Usage | None
    why: str


class _Pause:
    """The holds of one pause. `calls` is only appended to, by the pause's own thread."""

    def __init__(self, planned: PlannedHold, betas: tuple[str, ...]) -> None:
        self.planned, self.betas = planned, betas
        self.cancelled = threading.Event()
        self.calls: list[HeldCall] = []
        self.collected = 0
        self.thread: threading.Thread | None = None

    @property
    def is_over(self) -> bool:
        return self.collected == len(self.calls) and not (self.thread and self.thread.is_alive())


class CacheHolder:
    """Call it from the conversation's thread; the holds run in their own."""

    def __init__(
        self,
        conversation: Conversation,
        send: Send,
        *,
        clock: Callable[[], datetime],
        tell: Callable[[Event], None],
        paid: Callable[[Usage], None],
        moment: Callable[[], EventContext],
        wait: Wait = lambda cancelled, seconds: cancelled.wait(seconds),
    ) -> None:
        self._conversation, self._send, self._clock = conversation, send, clock
        self._tell, self._paid, self._moment, self._wait = tell, paid, moment, wait
        self._pauses: list[_Pause] = []

    def begin(self, betas: tuple[str, ...]) -> None:
        """A reply has come: from now on it is quiet. Plan the holds of this pause, if they are worth it."""
        after = self._conversation.setting.options.economy.hold_after
        planned = self._conversation.plan_hold(self._clock() + after)
        if planned is None or not planned.decision.holds:
            return
        pause = _Pause(planned, betas)
        self._pauses.append(pause)
        waits = after.total_seconds()
        pause.thread = threading.Thread(
            target=self._hold, args=(pause, waits), name="cache hold", daemon=True
        )
        pause.thread.start()

    def end(self) -> None:
        """Somebody speaks, or the session closes: no further hold is sent. Collect what was."""
        for pause in self._pauses:
            pause.cancelled.set()
            for call in pause.calls[pause.collected :]:
                pause.collected += 1
                self._collect(call)
        self._pauses = [pause for pause in self._pauses if not pause.is_over]

    def _collect(self, call: HeldCall) -> None:
        if call.usage is not None:
            self._conversation.record_hold(call.usage, call.at)
            self._paid(call.usage)
        tokens = call.usage.context if call.usage else 0
        self._tell(CacheHeld(moment=self._moment(), at=call.at, tokens=tokens, why=call.why))

    # ── runs in the pause's own thread ───────────────────────────────────────────────────────────

    def _hold(self, pause: _Pause, seconds: float) -> None:
        planned = pause.planned
        while planned.decision.holds and not self._wait(pause.cancelled, seconds):
            call = self._ask(planned, pause.betas, self._clock())
            pause.calls.append(call)
            if call.usage is None:
                return
            planned, seconds = planned.renewed(call.usage), HOUR

    def _ask(self, planned: PlannedHold, betas: tuple[str, ...], at: datetime) -> HeldCall:
        try:
            answered = parse_reply(self._send(planned.request().to_bytes(), betas)).response
        except UpstreamError as problem:
            return HeldCall(at, None, f"the hold failed: {problem}")
        except Exception as problem:
            # Only the type: the message may hold private text.
            return HeldCall(at, None, f"the hold raised {type(problem).__name__}")
        return HeldCall(at, clamp_usage(answered.reply.usage or Usage()), planned.decision.why)
