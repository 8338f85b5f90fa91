"""The most that summaries may use: calls, tokens and dollars, per session, and per tenant and day (GW-20).

A summary is a call that the client did not make, with the client's key. It is counted before it is sent, so
that replicas cannot exceed the cap on calls together; its tokens and dollars are known when it has ended.
"""

from collections.abc import Callable, Mapping
from datetime import date
from decimal import ROUND_UP, Decimal
from typing import Final, NamedTuple

from everturn.gateway.limits import CapSettings
from everturn.session.bill import UsageTotals
from everturn.session.store.factory import CounterStep, StoreFactory

# Counters are whole numbers.
_MICRO: Final = Decimal(1_000_000)


class CapKey(NamedTuple):
    """Whose summary it is, and on which day."""

    tenant: str
    session: str
    day: date


class SummaryCaps:
    """The caps, counted in a store: shared between replicas, and kept over restarts where the store is."""

    def __init__(self, settings: CapSettings, open_stores: Callable[[], StoreFactory]) -> None:
        self._caps = _list_caps(settings)
        self._open_stores = open_stores

    def begin(self, key: CapKey) -> str:
        """Count a summary call that is about to be sent. Returns which cap is used up, and then nothing was
        counted; "" if the call may be sent. Raises `StoreError` if nobody knows."""
        stores, names = self._open_stores(), _name_counters(key)
        spent = stores.read_counters(key.tenant, list(names))
        for name, cap in names.items():
            if spent[name] >= self._caps[cap]:
                return cap
        steps = [
            CounterStep(name, 1, self._caps[cap]) for name, cap in names.items() if cap.endswith("_calls")
        ]
        return names.get(stores.count(key.tenant, steps), "")

    def end(self, key: CapKey, spent: UsageTotals) -> None:
        """Count what a summary call has used."""
        amounts = {
            "tokens": spent.input + spent.written + spent.read + spent.output,
            "dollars": _to_micro(spent.dollars),
        }
        steps = [
            CounterStep(name, amounts[kind])
            for name, cap in _name_counters(key).items()
            if (kind := cap.partition("_")[2]) in amounts
        ]
        self._open_stores().count(key.tenant, steps)


def _name_counters(key: CapKey) -> Mapping[str, str]:
    """The cap that each counter has, by the counter's name."""
    whose = {"session": key.session, "tenant": key.day.isoformat()}
    return {
        f"summaries/{owner}/{name}/{kind}": f"{owner}_{kind}"
        for owner, name in whose.items()
        for kind in ("calls", "tokens", "dollars")
    }


def _list_caps(settings: CapSettings) -> Mapping[str, int]:
    """The caps as counters have them."""
    return {
        "session_calls": settings.session_calls,
        "session_tokens": settings.session_tokens,
        "session_dollars": _to_micro(Decimal(str(settings.session_dollars))),
        "tenant_calls": settings.tenant_calls,
        "tenant_tokens": settings.tenant_tokens,
        "tenant_dollars": _to_micro(Decimal(str(settings.tenant_dollars))),
    }


def _to_micro(dollars: Decimal) -> int:
    return int((dollars * _MICRO).to_integral_value(ROUND_UP))
