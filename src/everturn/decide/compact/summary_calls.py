"""The calls that one compaction may make of a model, over all of its strategies (CP-9, CP-22)."""

from collections.abc import Callable
from typing import NamedTuple

from everturn.decide.compact.context import CompactionContext
from everturn.decide.effects import AskModel, Flow, ModelAnswer, ModelFailure, ask_model, emit
from everturn.decide.events import Event


class CallObserver(NamedTuple):
    """Whoever keeps count of summary calls across compactions, and of what they leave in the cache."""

    before_call: Callable[[], None]
    # Returns what listeners should know about the call; None for nothing.
    after_call: Callable[[AskModel, ModelAnswer | ModelFailure], Event | None]


class SummaryCalls:
    """Every strategy asks its model through this. One call more than allowed gets our own refusal as its
    answer; what a strategy leaves is for the next one."""

    def __init__(self, context: CompactionContext, observer: CallObserver | None = None) -> None:
        self._allowed = context.settings.calls if context.calls is None else context.calls
        self._left = self._allowed
        self._observer = observer

    def ask(self, effect: AskModel) -> Flow[ModelAnswer | ModelFailure]:
        # A shorter request after "too long" has a limit of its own (`overflow_retry.py`).
        if not effect.is_overflow_retry:
            if not self._left:
                return ModelFailure("calls_spent", self._refusal())
            self._left -= 1
        if self._observer is not None:
            self._observer.before_call()
        answer = yield from ask_model(effect)
        if self._observer is not None and (event := self._observer.after_call(effect, answer)) is not None:
            yield from emit(event)
        return answer

    def _refusal(self) -> str:
        if not self._allowed:
            return "no model is asked: too many compactions or summaries of this session have failed"
        return f"no model is asked again: the calls for this summary ({self._allowed}) are spent"
