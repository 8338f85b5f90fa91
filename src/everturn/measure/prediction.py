"""What the next call will read, write and pay in full; and why it came out otherwise (PC-8).

Before a call the outline of the request is looked up in our own picture of the provider's cache. After
it the reported usage is the judge: a difference is explained, and what the provider turned out to have
lost is lost in our picture too.
"""

from dataclasses import replace
from typing import Literal

import msgspec

from everturn.history.records import Usage
from everturn.measure.prefix_cache import CacheLookup, PrefixCache, PromptLayout

Verdict = Literal["as predicted", "read less", "read more", "written otherwise", "other total"]


class Prediction(msgspec.Struct, frozen=True):
    """Tokens of the next request by how they will be paid."""

    read: int
    write_5m: int
    write_1h: int
    plain: int
    # The last block that is read, by its place in the prefix (`Outline.path_of` names it).
    hit: int | None = None

    @property
    def total(self) -> int:
        return self.read + self.write_5m + self.write_1h + self.plain

    @property
    def tokens(self) -> tuple[int, int, int, int]:
        return self.read, self.write_5m, self.write_1h, self.plain


class PredictionCheck(msgspec.Struct, frozen=True):
    """A prediction beside what was reported. `missed`: tokens that should have been read and were not."""

    verdict: Verdict
    predicted: Prediction
    reported: Prediction
    why: str

    @property
    def missed(self) -> int:
        return max(0, self.predicted.read - self.reported.read)


def prediction_from_usage(usage: Usage) -> Prediction:
    """Usage in the same four kinds. Without a breakdown the writes are taken as five-minute ones."""
    written = usage.cache_creation
    hour = written.ephemeral_1h_input_tokens if written else 0
    return Prediction(
        read=usage.cache_read_input_tokens,
        write_5m=usage.cache_creation_input_tokens - hour,
        write_1h=hour,
        plain=usage.input_tokens,
    )


def check_prediction(predicted: Prediction, usage: Usage) -> PredictionCheck:
    """Where blocks are only estimated the totals differ always; a read of nothing is told apart even then."""
    seen = prediction_from_usage(usage)
    if seen.tokens == predicted.tokens:
        return PredictionCheck("as predicted", predicted, seen, "reported as predicted")
    if seen.total != predicted.total and (seen.read or not predicted.read):
        why = (
            f"{seen.total:,} tokens were billed, {predicted.total:,} expected: the provider counts otherwise"
        )
        return PredictionCheck("other total", predicted, seen, why)
    if seen.read < predicted.read:
        gone = predicted.read - seen.read
        why = f"{gone:,} tokens that should have been read were not: their entry was gone before its time"
        return PredictionCheck("read less", predicted, seen, why)
    if seen.read > predicted.read:
        why = (
            f"{seen.read - predicted.read:,} more tokens were read: an entry that we did not write was found"
        )
        return PredictionCheck("read more", predicted, seen, why)
    why = f"{seen.read:,} tokens were read as predicted, but the rest was written otherwise than asked for"
    return PredictionCheck("written otherwise", predicted, seen, why)


class Forecast:
    """Our picture of the provider's cache for one workspace, and the call that is under way.

    Conversations that share a workspace share the cache, each with a forecast of its own.
    """

    def __init__(self, cache: PrefixCache | None = None) -> None:
        self._cache = cache or PrefixCache()
        self._under_way: tuple[PromptLayout, float, CacheLookup, Prediction] | None = None

    def predict(self, prompt: PromptLayout, now: float) -> Prediction:
        """Look, without having sent anything. Asking again, for a log or a retry, changes nothing."""
        seen = self._cache.look(prompt, now)
        found = Prediction(seen.read, seen.write_5m, seen.write_1h, seen.plain, seen.hit)
        self._under_way = prompt, now, seen, found
        return found

    def settle(self, usage: Usage, now: float) -> PredictionCheck | None:
        """The call was answered: what it wrote can be read from now on. None when no call was predicted."""
        if self._under_way is None:
            return None
        (prompt, started, outcome, predicted), self._under_way = self._under_way, None
        result = check_prediction(predicted, usage)
        if result.verdict == "read less":
            outcome = self._without_lost(prompt, started, outcome, result.reported.read)
        elif result.verdict == "read more":
            # What lies below the entry that was found was not written now, and nobody knows how old it is.
            written = tuple(entry for entry in outcome.written if entry.tokens >= result.reported.read)
            outcome = replace(outcome, written=written)
        self._cache.refresh(outcome)
        self._cache.write(outcome, now)
        return result

    def _without_lost(
        self, prompt: PromptLayout, started: float, outcome: CacheLookup, read: int
    ) -> CacheLookup:
        """What should have been found and was not is gone: what is left was found, and the rest written."""
        while outcome.read > read and (lost := outcome.refreshed) is not None:
            place = lost.scope, lost.key
            self._cache.lose(lambda entry, place=place: (entry.scope, entry.key) == place)
            outcome = self._cache.look(prompt, started)
        return outcome
