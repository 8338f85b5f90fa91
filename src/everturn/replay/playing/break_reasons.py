"""Why a call read much less from the cache than the one before it had left there."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from everturn.decide.cache_breaks import DetectedBreak, NoBreak
from everturn.engine import Turn
from everturn.history.edits import Cleared, Compacted
from everturn.history.records import Record
from everturn.measure.prefix_cache import Ttl
from everturn.replay.playing.cache_billing import LastPromptForecast
from everturn.replay.playing.call_log import CallLog, describe_own_edit
from everturn.replay.playing.steps import is_past

_IDLE_LIMITS: Final[Mapping[Ttl, str]] = {"5m": "5 min", "1h": "1 h"}
_LOST: Final = "the provider lost the entry, as in the recording"
_LOST_ALL: Final = "system prompt or tools changed or lost, as in the recording"
_KEY_CHANGED: Final = "the cache key changed (for example, an image was added)"


class BreakReasons:
    """Collects what happened before a call."""

    def __init__(self, call_log: CallLog, ttl: Ttl) -> None:
        self._call_log = call_log
        self._ttl: Ttl = ttl
        # Why entries were lost before the current call that the recording lost too; "" if none were.
        self._lost = ""
        # What the recording, or a bound, did to the context since the last call.
        self._edit = ""

    def note_record(self, record: Record) -> None:
        if isinstance(record.edit, Cleared | Compacted):
            is_clearing = isinstance(record.edit, Cleared) or is_past(record)
            self._edit = f"the recorded {'clearing' if is_clearing else 'compaction'}"

    def note_bound(self) -> None:
        self._edit = "an edit of the bound"

    def note_losses(self, forecast: LastPromptForecast) -> None:
        """To be called before the call is settled: then the forecast forgets them."""
        is_all = forecast.event is not None and forecast.event.loses_all
        self._lost = "" if forecast.lost_behind is None else _LOST_ALL if is_all else _LOST

    def explain(self, turn: Turn, verdict: DetectedBreak | NoBreak, at: datetime) -> str:
        """The reason for the call that was just made; "" if the cache did not break."""
        edit, self._edit = self._edit, ""
        if not self._call_log.has_cache_break(turn.prediction):
            return ""
        if self._lost:
            return self._lost
        if self._call_log.has_expired(at, self._ttl):
            return f"cache expired (idle more than {_IDLE_LIMITS[self._ttl]})"
        if known := edit or describe_own_edit(turn):
            return known
        # Adding an image changes the cache key of all messages (api-facts 1.6), without an edit of ours.
        changed = isinstance(verdict, DetectedBreak) and verdict.changes
        return verdict.why if isinstance(verdict, DetectedBreak) and changed else _KEY_CHANGED
