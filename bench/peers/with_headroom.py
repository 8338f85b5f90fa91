"""headroom's `compress`: what was sent stays as it was sent and only what is new is compressed; or everything
is looked at anew before every call.

Its text model and its exact tokenizer are downloads; it runs without the one and with its own estimate
instead of the other. It has no window to keep to: a session that outgrows it ends.
"""

from headroom import compress

from everturn.history.records import Usage
from peers.keeping import Json, Kind, Stage, marked_at_the_end, marked_head


class Compressing:
    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.messages: list[Json] = []

    def hear(self, message: Json, usage: Usage | None = None) -> None:
        self.messages.append(message)

    def _compressed(self, frozen: int) -> list[Json]:
        done = compress(
            self.messages,
            model=self._stage.model,
            model_limit=self._stage.window,
            frozen_message_count=frozen,
            kompress_model="disabled",
        )
        return done.messages

    def body(self) -> Json:
        return {"system": marked_head(self._stage.head), "messages": marked_at_the_end(self._sent)}

    def overflowed(self) -> bool:
        return False


class Frozen(Compressing):
    """The provider has cached what was sent, so that is frozen and stays compressed as it was."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._frozen = 0

    def decide(self) -> None:
        self._sent = self._compressed(self._frozen)
        self.messages, self._frozen = list(self._sent), len(self._sent)


class Anew(Compressing):
    """As after a long pause, before every call: nothing is frozen."""

    def decide(self) -> None:
        self._sent = self._compressed(0)


PACKAGES = ("headroom-ai",)
_CACHES = "the caller's: one automatic marker, one on the head"
KINDS = (
    Kind("headroom compress, prefix frozen", Frozen, _CACHES),
    Kind("headroom compress, nothing frozen", Anew, _CACHES, compacts=True),
)
