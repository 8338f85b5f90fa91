"""What we expect the provider's prompt cache to hold: the forecast, the break detector, the last request.

The only owner of this state. A conversation asks it where breakpoints go and what they will find; every reply
settles the forecast, and the detector explains what was lost.
"""

from datetime import datetime
from typing import Literal

import msgspec

from everturn.decide.cache_breaks import CacheBreakDetector
from everturn.decide.cache_key_snapshot import (
    CacheKeyChange,
    CacheKeySnapshot,
    PreambleDigests,
    diff_key_snapshots,
    digest_preamble,
    take_key_snapshot,
)
from everturn.decide.view_tracker import ViewTracker
from everturn.engine.values import ConversationSettings
from everturn.history.records import Usage
from everturn.measure.outline import Outline, Preamble
from everturn.measure.prediction import Forecast, Prediction, PredictionCheck
from everturn.measure.prefix_cache import SECONDS, PromptLayout, Ttl
from everturn.view.breakpoints import Breakpoints, place_breakpoints
from everturn.view.cache_key import compute_key_salts
from everturn.view.forks import CapturedRequest, make_fork
from everturn.view.key_parameters import KeyParameters, LatchedParameters, latch_parameters
from everturn.view.requests import place_fork_breakpoints


class LastCall:
    """When a call with messages of this conversation was last sent, as far as is known. Forks share it with
    their parent: they share cache entries.
    """

    def __init__(self) -> None:
        self.at: datetime | None = None

    def note(self, at: datetime) -> None:
        self.at = max(at, self.at or at)


class ProviderCache:
    def __init__(self, forecast: Forecast | None = None, detector: CacheBreakDetector | None = None) -> None:
        self.detector = detector or CacheBreakDetector()
        self.forecast = forecast or Forecast()
        # The settings of the last request, and the parameters that apply since the first one (PC-10).
        self.sent: ConversationSettings | None = None
        self._latched: KeyParameters | None = None
        # Breakpoints of the last request, and of the last one that was answered: what it wrote is cached.
        self.breakpoints = Breakpoints()
        self.answered_breakpoints = Breakpoints()
        # When the last answered call began; when an unanswered one did, and how far its breakpoints reached.
        self.called_at: datetime | None = None
        self._under_way: tuple[datetime, int] | None = None
        # The same for every call that this conversation shares entries with: summaries, holds, forks.
        self.last_call = LastCall()
        self._digested: tuple[Preamble, PreambleDigests] | None = None
        # The key of the last observed call, and what it was taken from.
        self._observed: tuple[tuple[str, KeyParameters], Preamble, CacheKeySnapshot] | None = None
        # When a hold last renewed the entries, for how long, and what it sent.
        self.held_at: datetime | None = None
        self._held_for: Ttl = "1h"
        self._held: PromptLayout | None = None
        # Why the next prediction may be wrong, for display.
        self.doubts: tuple[str, ...] = ()

    def forget_view(self) -> None:
        """The view was replaced: the breakpoints of the old one no longer apply."""
        self.breakpoints = self.answered_breakpoints = Breakpoints()

    def latch(self, settings: ConversationSettings) -> LatchedParameters:
        """The parameters to send: those of the first request, if they are part of the key. A different model
        has a separate cache, so it gets the parameters that it supports; the lifetime stays (PC-10).
        """
        latched = self._latched
        if latched is not None and self.sent is not None:
            is_same = self.sent.has_same_model(settings) and settings.decides == "engine"
            if not is_same:
                latched = msgspec.structs.replace(settings.parameters, lifetime=latched.lifetime)
        return latch_parameters(latched, settings.parameters)

    def begin_call(
        self, tracker: ViewTracker, settings: ConversationSettings, parameters: KeyParameters, now: datetime
    ) -> tuple[Breakpoints, Prediction, tuple[CacheKeyChange, ...]]:
        """A request is about to be sent: its breakpoints, what they will find, what changed in its key."""
        self._latched, self.sent = parameters, settings
        found, prediction = self.look_ahead(tracker, settings, parameters, now)
        self._under_way, self.breakpoints = (now, found.reached), found
        digests = self._digest(settings.preamble)
        sent = take_key_snapshot(settings.model.id, settings.preamble, parameters, found, digests)
        sent = msgspec.structs.replace(sent, pictures=tracker.outline.pictures, cites=tracker.outline.cites)
        changes = self.detector.before_call(settings.source, sent, settings.preamble, now.timestamp())
        return found, prediction, changes

    def observe_call(self, settings: ConversationSettings, now: datetime) -> None:
        """A request is about to be sent as its caller made it: only its key is known."""
        parameters = self.latch(settings).parameters
        self._latched, self.sent = parameters, settings
        self._under_way, self.breakpoints = (now, -1), Breakpoints()
        sent = self._take_observed_key(settings, parameters)
        self.detector.before_call(settings.source, sent, settings.preamble, now.timestamp())

    def _take_observed_key(
        self, settings: ConversationSettings, parameters: KeyParameters
    ) -> CacheKeySnapshot:
        """Taken once while nothing changes: an observed call has no breakpoints of ours."""
        preamble, given = settings.preamble, (settings.model.id, parameters)
        known = self._observed
        if known is None or known[1] is not preamble or known[0] != given:
            digests = self._digest(preamble)
            taken = take_key_snapshot(settings.model.id, preamble, parameters, Breakpoints(), digests)
            known = self._observed = given, preamble, taken
        return known[2]

    def settle_observed(self) -> None:
        """An observed call was answered. What it left in the cache is not known."""
        if self._under_way is not None:
            (self.called_at, _), self._under_way = self._under_way, None
            self.last_call.note(self.called_at)
            self.held_at = None
        self.doubts, self.answered_breakpoints = (), self.breakpoints

    def _digest(self, preamble: Preamble) -> PreambleDigests:
        """The preamble is the same for most requests: its digests are computed once."""
        if self._digested is None or self._digested[0] is not preamble:
            self._digested = preamble, digest_preamble(preamble)
        return self._digested[1]

    def look_ahead(
        self, tracker: ViewTracker, settings: ConversationSettings, parameters: KeyParameters, now: datetime
    ) -> tuple[Breakpoints, Prediction]:
        outline = tracker.build_outline(settings.preamble, settings.costs)
        found = place_breakpoints(
            outline,
            settings.preamble,
            ttl=parameters.lifetime.ttl,
            capabilities=settings.capabilities,
            previous=tracker.reached,
            writes="its own",
        )
        salt = compute_key_salts(settings.model, parameters)
        prompt = outline.prompt(salt, found.places, minimum=settings.model.min_cache)
        return found, self.forecast.predict(prompt, now.timestamp())

    def settle(
        self, tracker: ViewTracker, usage: Usage, now: datetime, applied: str = ""
    ) -> PredictionCheck | None:
        """Compare the reply's usage with the prediction. `applied` says what the API
        cleared itself, which no prediction can know.
        """
        if self._under_way is not None:
            (self.called_at, tracker.reached), self._under_way = self._under_way, None
            self.last_call.note(self.called_at)
            self.held_at = None
        self.doubts, self.answered_breakpoints = (), self.breakpoints
        return self.forecast.settle(usage, now.timestamp(), applied)

    def summary_parameters(self, settings: ConversationSettings) -> KeyParameters:
        """The parameters of a request that shares the last one's prefix; another model may not support them,
        and gets its own."""
        is_shared = self.sent is not None and self.sent.has_same_model(settings)
        return self._latched if self._latched and is_shared else self.latch(settings).parameters

    def written_breakpoints(
        self, tracker: ViewTracker, settings: ConversationSettings, answered: int
    ) -> Breakpoints:
        """Where the provider's cache has entries of this view: the breakpoints of the last answered request.
        If this process has not sent it, they are where we would have placed them; `answered` is the number of
        messages in it, 0 if no request of this view is known. Nothing is written for an unknown or another
        key: whoever asks for a summary has no use for an entry.
        """
        if self.sent is not settings:
            return Breakpoints(why=("no request with this key is known",))
        if self.answered_breakpoints.places:
            return self.answered_breakpoints
        outline = tracker.build_outline(settings.preamble, settings.costs).up_to(answered)
        return place_breakpoints(
            outline,
            settings.preamble,
            ttl=self.summary_parameters(settings).lifetime.ttl,
            capabilities=settings.capabilities,
            previous=-1,
            writes="its own",
        )

    def note_summary_call(
        self,
        tracker: ViewTracker,
        settings: ConversationSettings,
        captured: CapturedRequest,
        strategy: Literal["fork", "provider"],
        usage: Usage,
        now: datetime,
    ) -> None:
        """Record that the conversation was sent for a summary: that renews what it reads,
        and may write what had expired.
        """
        outline = _outline_of(tracker, settings, captured)
        is_fork = strategy == "fork"
        fork = make_fork(captured, ())
        found = place_fork_breakpoints(fork, settings.capabilities) if is_fork else captured.breakpoints
        salt = compute_key_salts(settings.model, captured.parameters)
        prompt = outline.prompt(salt, found.places, minimum=settings.model.min_cache)
        self.forecast.predict(prompt, now.timestamp())
        self.forecast.settle(usage, now.timestamp())
        self.last_call.note(now)

    def predict_hold(
        self, tracker: ViewTracker, settings: ConversationSettings, held: CapturedRequest, now: datetime
    ) -> Prediction:
        outline = _outline_of(tracker, settings, msgspec.structs.replace(held, messages=held.messages[:-1]))
        outline.replace_from(len(held.messages) - 1, held.messages[-1:])
        salt = compute_key_salts(settings.model, held.parameters)
        self._held = outline.prompt(salt, held.breakpoints.places, minimum=settings.model.min_cache)
        return self.forecast.predict(self._held, now.timestamp())

    def settle_hold(self, usage: Usage, at: datetime, *, lasts: Ttl = "1h") -> None:
        """A hold that was sent at this time was answered. Holds of one pause send the same prompt."""
        if self._held is not None:
            self.forecast.predict(self._held, at.timestamp())
            self.forecast.settle(usage, at.timestamp())
            self.held_at, self._held_for = at, lasts
            self.last_call.note(at)

    def seconds_idle_beyond_ttl(
        self, settings: ConversationSettings, now: datetime, last_reply: datetime | None = None
    ) -> float | None:
        """How long the conversation has been idle, if that is longer than the cache lifetime. `last_reply` is
        used if no call of this process is known.
        """
        called_at = self.called_at or last_reply
        if called_at is None:
            return None
        idle = (now - called_at).total_seconds()
        return idle if idle > SECONDS[self.ttl(settings)] and not self.is_held(now) else None

    def seconds_unused_beyond_ttl(
        self, settings: ConversationSettings, now: datetime, last_reply: datetime | None
    ) -> float | None:
        """The same since the last call of anybody that is known to share entries with this conversation."""
        idle, shared = self.seconds_idle_beyond_ttl(settings, now, last_reply), self.last_call.at
        if idle is not None and shared is not None:
            idle = min(idle, (now - shared).total_seconds())
        return idle if idle is not None and idle > SECONDS[self.ttl(settings)] else None

    def ttl(self, settings: ConversationSettings) -> Ttl:
        """How long the entries of this conversation live: that of the first request stays (PC-10)."""
        return (self._latched or settings.parameters).lifetime.ttl

    def is_held(self, now: datetime) -> bool:
        """Whether a hold since the last call still keeps the entries alive."""
        return self.held_at is not None and (now - self.held_at).total_seconds() <= SECONDS[self._held_for]

    # ── after a restart ──────────────────────────────────────────────────────────────────────────

    def continues_last_call(self, settings: ConversationSettings) -> bool:
        """Whether the last call before a restart had the same key as the next request (CB-7)."""
        changed = self._parts_changed_since_last_call(settings)
        return changed is not None and changed <= {"markers"}

    def keeps_preamble(self, settings: ConversationSettings) -> bool:
        """Whether the last call before a restart had the same model, system prompt and tools: thinking is
        bound to these and to the messages, not to the rest of the key, such as a beta header (PC-16)."""
        changed = self._parts_changed_since_last_call(settings)
        return changed is not None and changed.isdisjoint({"system", "tools", "model"})

    def changed_since_restart(self, settings: ConversationSettings) -> tuple[str, ...]:
        """How the key of the next request differs from that of the last process, which this one cannot
        repeat; empty once this process has sent a request, or if the earlier key is not known."""
        changes = self._changes_since_last_call(settings) if self.sent is None else None
        return tuple(each.what for each in changes or () if each.part != "markers")

    def _parts_changed_since_last_call(self, settings: ConversationSettings) -> set[str] | None:
        changes = self._changes_since_last_call(settings)
        return None if changes is None else {change.part for change in changes}

    def _changes_since_last_call(self, settings: ConversationSettings) -> tuple[CacheKeyChange, ...] | None:
        """None if the last call before a restart is not known."""
        known = self.detector.baselines.get(settings.source)
        if known is None or known.answered is None:
            return None
        now = take_key_snapshot(settings.model.id, settings.preamble, settings.parameters, Breakpoints())
        return diff_key_snapshots(known.answered.snapshot, now)

    def replay_call(
        self, tracker: ViewTracker, settings: ConversationSettings, usage: Usage, asked_at: datetime
    ) -> None:
        """Replay a call of an earlier process: its request is what the log holds before its reply."""
        check = self._replayed(tracker, settings, usage, asked_at)
        if check is None or check.verdict == "other total":
            # The key changed before this call, or is unknown: only this call can be used.
            self.forecast = Forecast()
            self._replayed(tracker, settings, usage, asked_at)

    def _replayed(
        self, tracker: ViewTracker, settings: ConversationSettings, usage: Usage, asked_at: datetime
    ) -> PredictionCheck | None:
        found, _ = self.look_ahead(tracker, settings, settings.parameters, asked_at)
        self.called_at, tracker.reached = asked_at, found.reached
        return self.forecast.settle(usage, asked_at.timestamp())


def _outline_of(tracker: ViewTracker, settings: ConversationSettings, captured: CapturedRequest) -> Outline:
    """The tracked outline, up to those messages: a new one would measure all of them again."""
    able, costs = settings.capabilities, settings.costs
    outline, sent = tracker.build_outline(captured.preamble, costs), list(captured.messages)
    if outline.messages[: len(sent)] == sent:
        return outline.up_to(len(sent))
    made = Outline(costs, lookback=able.lookback, runs_are_one=able.runs_are_one)
    made.set_preamble(captured.preamble)
    made.replace_from(0, captured.messages)
    return made
