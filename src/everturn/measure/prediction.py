"""What the next call will read, write and pay in full, and why the result differs (PC-8).

Before a call, the outline of the request is looked up in our model of the provider's cache. After it, the
reported usage is compared: a difference is explained, and entries that the provider turned out to have lost
are removed from our model too.
"""

from typing import Literal

import msgspec

from everturn.history.records import Usage
from everturn.measure.prefix_cache import CacheLookup, PrefixCache, PromptLayout

Verdict = Literal[
    "as predicted", "read less", "read more", "written otherwise", "other total", "cleared by the API"
]  # fmt: skip


class Prediction(msgspec.Struct, frozen=True):
    """Tokens of the next request by how they will be billed."""

    read: int
    write_5m: int
    write_1h: int
    plain: int
    # The last block that is read from the cache, by its index in the prefix.
    hit: int | None = None

    @property
    def total(self) -> int:
        return self.read + self.write_5m + self.write_1h + self.plain

    @property
    def tokens(self) -> tuple[int, int, int, int]:
        return self.read, self.write_5m, self.write_1h, self.plain


class PredictionCheck(msgspec.Struct, frozen=True):
    """A prediction and the reported usage. `missed`: tokens that should have been read and were not."""

    verdict: Verdict
    predicted: Prediction
    reported: Prediction
    why: str

    @property
    def missed(self) -> int:
        return max(0, self.predicted.read - self.reported.read)


def prediction_from_usage(usage: Usage) -> Prediction:
    """Usage in the same four kinds. Without a breakdown, writes count as five-minute ones."""
    written = usage.cache_creation
    hour = written.ephemeral_1h_input_tokens if written else 0
    return Prediction(
        read=usage.cache_read_input_tokens,
        write_5m=usage.cache_creation_input_tokens - hour,
        write_1h=hour,
        plain=usage.input_tokens,
    )


def check_prediction(predicted: Prediction, usage: Usage, cleared: str = "") -> PredictionCheck:
    """Compare a prediction with the usage. With estimated counts the totals always differ; a read of nothing
    is recognised even then.

    `cleared` is what the API reports to have removed from the prompt itself: the prompt that was read and
    written differs from ours, and no entry was lost.
    """
    seen = prediction_from_usage(usage)
    if seen.tokens == predicted.tokens:
        return PredictionCheck("as predicted", predicted, seen, "reported as predicted")
    if cleared:
        why = f"the API cleared {cleared}: {seen.read:,} of {predicted.read:,} expected tokens were read"
        return PredictionCheck("cleared by the API", predicted, seen, why)
    if seen.total != predicted.total and (seen.read or not predicted.read):
        why = f"{seen.total:,} tokens billed, {predicted.total:,} expected: the provider counts differently"
        return PredictionCheck("other total", predicted, seen, why)
    if seen.read < predicted.read:
        gone = predicted.read - seen.read
        why = f"{gone:,} tokens that should have been read were not: the entry was evicted early"
        return PredictionCheck("read less", predicted, seen, why)
    if seen.read > predicted.read:
        why = f"{seen.read - predicted.read:,} more tokens were read: an entry that is not ours was found"
        return PredictionCheck("read more", predicted, seen, why)
    why = f"{seen.read:,} tokens were read as predicted, but the rest was not written as requested"
    return PredictionCheck("written otherwise", predicted, seen, why)


class Forecast:
    """Our model of the provider's cache for one workspace, and the call in progress.

    Conversations that share a workspace share the cache; each has its own forecast.
    """

    def __init__(self, cache: PrefixCache | None = None) -> None:
        self._cache = cache or PrefixCache()
        self._under_way: tuple[PromptLayout, float, CacheLookup, Prediction] | None = None

    def predict(self, prompt: PromptLayout, now: float) -> Prediction:
        """Predict a call without sending anything. Calling it again, for a log or a retry, is harmless."""
        seen = self._cache.look(prompt, now)
        found = Prediction(seen.read, seen.write_5m, seen.write_1h, seen.plain, seen.hit)
        self._under_way = prompt, now, seen, found
        return found

    def settle(self, usage: Usage, now: float, cleared: str = "") -> PredictionCheck | None:
        """Record that the call was answered: what it wrote can be read from now on. None if no call was
        predicted. `cleared` describes what the API removed itself; "" for nothing.
        """
        if self._under_way is None:
            return None
        (prompt, started, outcome, predicted), self._under_way = self._under_way, None
        result = check_prediction(predicted, usage, cleared)
        if result.verdict == "read less":
            outcome = self._without_lost(prompt, started, outcome, result.reported.read)
        elif result.verdict == "read more":
            # Entries before the one that was found were not written now, and their age is unknown.
            written = tuple(entry for entry in outcome.written if entry.tokens >= result.reported.read)
            outcome = msgspec.structs.replace(outcome, written=written)
        self._cache.refresh(outcome)
        self._cache.write(outcome, now)
        return result

    def _without_lost(
        self, prompt: PromptLayout, started: float, outcome: CacheLookup, read: int
    ) -> CacheLookup:
        """Correct the lookup after a miss: the expected entry is gone, so less was read and the rest was
        written.
        """
        while outcome.read > read and (lost := outcome.refreshed) is not None:
            place = lost.scope, lost.key
            self._cache.lose(lambda entry, place=place: (entry.scope, entry.key) == place)
            outcome = self._cache.look(prompt, started)
        return outcome
