"""The most that summaries may use: calls, tokens and dollars, per session, and per tenant and day (GW-20).

A summary is a call that the client did not make, with the client's key. `SummaryCaps` is what a shared store
implements; `LocalCaps` counts in this process.
"""

from datetime import date
from decimal import Decimal
from threading import Lock
from typing import NamedTuple, Protocol

from everturn.gateway.limits import CapSettings
from everturn.session.bill import UsageTotals


class CapKey(NamedTuple):
    """Whose summary it is, and on which day."""

    tenant: str
    session: str
    day: date


class SummaryCaps(Protocol):
    def find_exceeded(self, key: CapKey) -> str:
        """Which cap is used up, for people; "" if a summary may be made."""
        ...

    def add(self, key: CapKey, spent: UsageTotals) -> None:
        """Count a summary call."""
        ...


class LocalCaps:
    """Safe to use from threads. A restart forgets what was used."""

    def __init__(self, settings: CapSettings) -> None:
        self._settings = settings
        self._lock = Lock()
        self._day: date | None = None
        self._spent: dict[tuple[str, str], UsageTotals] = {}

    def find_exceeded(self, key: CapKey) -> str:
        caps = self._settings
        with self._lock:
            session = self._spent.get((key.tenant, key.session), UsageTotals())
            tenant = (
                self._spent.get((key.tenant, ""), UsageTotals()) if key.day == self._day else UsageTotals()
            )
        return _find_exceeded(
            session, caps.session_calls, caps.session_tokens, caps.session_dollars, "session"
        ) or _find_exceeded(tenant, caps.tenant_calls, caps.tenant_tokens, caps.tenant_dollars, "tenant")

    def add(self, key: CapKey, spent: UsageTotals) -> None:
        with self._lock:
            if key.day != self._day:
                self._day = key.day
                self._spent = {who: each for who, each in self._spent.items() if who[1]}
            for who in ((key.tenant, key.session), (key.tenant, "")):
                self._spent[who] = self._spent.get(who, UsageTotals()) + spent


def _find_exceeded(spent: UsageTotals, calls: int, tokens: int, dollars: float, whose: str) -> str:
    used = spent.input + spent.written + spent.read + spent.output
    if spent.calls >= calls:
        return f"{whose}_calls"
    if used >= tokens:
        return f"{whose}_tokens"
    return f"{whose}_dollars" if spent.dollars >= Decimal(str(dollars)) else ""
