"""What an interrupt leaves: a session reads its file again if a call was ended halfway.

Ctrl-C can end a call between any two steps, also between the file and what is in memory. So can a MemoryError
or an error of the program's tokenizer. The file holds what was acknowledged, so the session goes on there.
"""

from collections.abc import Generator
from contextlib import contextmanager
from threading import RLock

from everturn.engine import ConversationSettings
from everturn.session.one_speaker import OneSpeaker
from everturn.session.resume import SessionStart, resume_runtime
from everturn.session.runtime import SessionParts, SessionRuntime
from everturn.session.store.protocol import Store


class InterruptibleRuntime:
    """The runtime of a session at this moment. A reload replaces it, so nobody keeps `runtime` for long."""

    def __init__(
        self, settings: ConversationSettings, store: Store, parts: SessionParts, start: SessionStart
    ) -> None:
        self._speakers = OneSpeaker()
        # Every append of the session, and the change from one runtime to the next: another thread than the
        # speaker's may pin.
        self.appending = RLock()
        # An interrupt or an error has ended a call in the middle of our own code.
        self._is_torn = False
        self.runtime = self._resume(settings, store, parts, start)

    @contextmanager
    def changing(self) -> Generator[None]:
        """One call that changes what is said, by one speaker."""
        with self._speakers.speaking(), self.interruptible():
            yield

    @contextmanager
    def interruptible(self) -> Generator[None]:
        """One call that an interrupt may end: unless the session only waited, the next call reads the file
        again. So it does where an error has ended a step halfway."""
        self.reload_if_torn()
        runner, is_writable = self.runtime.runner, not self.runtime.store.read_only_reason
        runner.is_waiting = False
        is_interrupted = False
        try:
            yield
        except (Exception, GeneratorExit):
            raise
        except BaseException:
            is_interrupted = not runner.is_waiting
            raise
        finally:
            if is_writable and (is_interrupted or self.runtime.runner.is_torn):
                self._is_torn = True

    def reload_if_torn(self) -> None:
        with self.appending:
            # What the program has closed stays closed.
            if not self._is_torn or self.runtime.is_closed:
                return
            self.reload()

    def reload(self) -> None:
        """Go on with what the file holds. If this ends halfway, the next call tries it again: the old runtime
        has the store, open or closed, until there is a new one."""
        with self.appending:
            self._is_torn = True
            runtime = self.runtime
            runtime.reopen_store()
            found = self._resume(runtime.conversation.setting, runtime.store, runtime.parts, "none")
            # What there is to say about the records was found anew.
            found.remark(*(text for text in runtime.remarks if text not in runtime.flaws))
            self.runtime = found
            self._is_torn = False

    def _resume(
        self, settings: ConversationSettings, store: Store, parts: SessionParts, start: SessionStart
    ) -> SessionRuntime:
        return resume_runtime(
            settings, store, parts, start, current=lambda: self.runtime, appending=self.appending
        )
