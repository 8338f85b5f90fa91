"""Calls during a pause that keep the cache from expiring: refreshes of a policy, and the engine's holds."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from everturn.decide.economy.pauses import HOUR
from everturn.engine import Conversation
from everturn.engine.holds import least_output
from everturn.measure.model import Model
from everturn.measure.prefix_cache import PrefixCache, Ttl
from everturn.replay.playing.cache_billing import (
    LastPromptForecast,
    bill_request,
    max_refreshes,
    rates_at,
    refresh_times,
    usage_from_prediction,
)
from everturn.replay.playing.call_log import CallLog, UnpricedCall
from everturn.replay.policies import ReplayPolicy
from everturn.wire.anthropic import Request

# Output of a refresh that the API does not accept empty: a few words of thinking and of an answer. An
# assumption; no recording has such a call.
LEAST_REFRESH_OUTPUT: Final = 100


class PauseCalls:
    """The calls between two calls of a conversation. They send the last request again."""

    def __init__(
        self, policy: ReplayPolicy, cache: PrefixCache, forecast: LastPromptForecast, log: CallLog, ttl: Ttl
    ) -> None:
        self._policy, self._cache, self._forecast, self._log = policy, cache, forecast, log
        self._ttl: Ttl = ttl
        self._request: Request | None = None
        self._thinking: Mapping[str, Any] | None = None

    def note_sent(self, request: Request | None, thinking: Mapping[str, Any] | None) -> None:
        """The last request; None if nobody wants to see requests. `thinking` is its parameter."""
        self._request, self._thinking = request, thinking

    def refresh(self, model: Model, number: int, now: datetime | None) -> None:
        """Refreshes the cache during a pause, if all refreshes together cost less than a new write (RP-8).

        `now` is the next call; None after the last one. Who does not know that no call follows refreshes then
        too, until that has cost what a new write costs.
        """
        prompt, last = self._forecast.prompt, self._log.last_touched_at
        if not self._policy.refresh or prompt is None or last is None:
            return
        output = 0 if self._may_send_empty() else LEAST_REFRESH_OUTPUT
        held = self._log.cached_tokens
        rates = rates_at(model, last, prompt.total)
        most = max_refreshes(held, prompt.total - held, rates, self._ttl, output=output)
        times = refresh_times(last, now, self._ttl, most=most + 1)
        if len(times) > most and not self._policy.blind:
            return
        for at in times[:most]:
            parts = bill_request(self._cache, prompt, at)
            why = "keeps the cache entry from expiring"
            entry = UnpricedCall(source="refresh", number=number, at=at, parts=parts, output=output, why=why)
            self._log.write(entry, model, self._request and self._emptied(self._request), prompt)

    def hold(self, conversation: Conversation, model: Model, number: int, now: datetime | None) -> None:
        """Holds the cache through a pause as the engine decides, without knowing how long it is (EC-2).
        `now` is the next call; None after the last one, which is charged all the same (EC-13).
        """
        last, economy = self._log.last_touched_at, self._policy.options.economy
        if not (economy.enabled and economy.holds) or last is None:
            return
        at = last + conversation.economy.first_wait
        while now is None or at < now:
            planned = conversation.plan_hold(at)
            if planned is None or not planned.decision.holds:
                return
            usage = usage_from_prediction(planned.prediction, least_output(self._thinking))
            entry = UnpricedCall(
                source="refresh",
                number=number,
                at=at,
                parts=planned.prediction,
                output=usage.output_tokens,
                why=planned.decision.why,
            )
            conversation.record_hold(planned, usage, at)
            request = planned.request() if self._log.is_observed else None
            self._log.write(entry, model, request, self._forecast.prompt)
            at += timedelta(seconds=HOUR)

    def _may_send_empty(self) -> bool:
        """Whether the API accepts `max_tokens: 0` with the last request: not in the mode `enabled`."""
        return (self._thinking or {}).get("type") != "enabled"

    def _emptied(self, request: Request) -> Request:
        """The same request, asking for as little as the API accepts: nothing, which only refreshes the cache
        (api-facts 1.9), or one token more than the thinking budget.
        """
        budget = (self._thinking or {}).get("budget_tokens", 0)
        least = 0 if self._may_send_empty() else budget + 1
        return msgspec.structs.replace(request, settings={**request.settings, "max_tokens": least})
