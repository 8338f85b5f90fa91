"""What the calls of one adapter cost, all together and for each conversation.

Adding to a total reads and then writes it, so one thread at a time does it.
"""

from collections import Counter
from collections.abc import Callable
from datetime import date, datetime
from threading import Lock
from typing import Any

import msgspec

from everturn.adapters.tracking.conversation import TrackedConversation
from everturn.history.records import Usage
from everturn.measure.model_table import find_model
from everturn.measure.pricing import ChargeKind, compute_priced_usage
from everturn.session.bill import Bill, BillPurpose, Ledger, UsageTotals, price_usage


class _PaidBody(msgspec.Struct):
    model: str = ""
    # As it came: a request that everturn does not change may have parts that only the price needs.
    usage: dict[str, Any] | None = None


def price_unchanged_reply(body: bytes, on: date) -> UsageTotals | None:
    """What the reply to a request that everturn did not read has used, with the compactions of the API and
    whatever else the API has billed in it. None if it does not say."""
    paid = msgspec.json.decode(body, type=_PaidBody)
    if paid.usage is None:
        return None
    model = find_model(paid.model)
    if model is None or not model.prices:
        return UsageTotals(calls=1, unpriced=1)
    priced = compute_priced_usage(paid.usage, model, on=on)
    tokens: Counter[ChargeKind] = Counter()
    for line in priced.lines:
        tokens[line.kind] += line.tokens
    return UsageTotals(
        calls=1,
        input=tokens["input"],
        written=tokens["cache_write_5m"] + tokens["cache_write_1h"],
        read=tokens["cache_read"],
        output=tokens["output"],
        dollars=priced.dollars,
    )


class AdapterBill:
    """Safe to use from threads."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self._ledger = Ledger()
        self._guard = Lock()
        self._lost = 0

    @property
    def bill(self) -> Bill:
        return self._ledger.bill

    def note(self, text: str, about: str = "") -> None:
        """Add a remark to the bill of all conversations; it replaces an earlier one about the same."""
        self._ledger.note(text, about)

    def pay(self, purpose: BillPurpose, usage: Usage, model: str, tracked: TrackedConversation) -> None:
        """A call for this conversation was answered: price it, and add it to both totals."""
        self.add(purpose, price_usage(usage, model, self._clock().date()), tracked)

    def add(self, purpose: BillPurpose, spent: UsageTotals, tracked: TrackedConversation) -> None:
        """Add what a call for this conversation has cost to both totals. It is in its state even if no reply
        is recorded any more."""
        self._add(purpose, spent, self._ledger, tracked.ledger)
        tracked.is_state_owed = True

    def pay_reply(self, usage: Usage, model: str) -> UsageTotals:
        """A reply has arrived: price it, and add it to the total of all conversations. It is not known yet
        in which conversation it is recorded, see `charge_reply`."""
        spent = price_usage(usage, model, self._clock().date())
        self._add("conversation", spent, self._ledger)
        return spent

    def charge_reply(self, spent: UsageTotals, tracked: TrackedConversation) -> None:
        """The reply was recorded: add its price to the total of its conversation."""
        self._add("conversation", spent, tracked.ledger)

    def pay_unchanged(self, body: bytes) -> None:
        """The reply to a request that was sent unchanged has arrived: it belongs to no conversation."""
        if (spent := price_unchanged_reply(body, self._clock().date())) is not None:
            self._add("conversation", spent, self._ledger)

    def note_lost_reply(self) -> None:
        """Say beside the bill that a reply is not in it: it has ended before it has said what it used."""
        with self._guard:
            self._lost += 1
            many = "1 reply was" if self._lost == 1 else f"{self._lost} replies were"
            self._ledger.note(
                f"{many} closed or cut off before the usage arrived; what that has cost is not in the bill.",
                about="lost replies",
            )

    def _add(self, purpose: BillPurpose, spent: UsageTotals, *ledgers: Ledger) -> None:
        with self._guard:
            for ledger in ledgers:
                ledger.add(purpose, spent)
