"""What a session has cost so far: the calls of the conversation, and the calls for summaries and notes.

Replies carry their usage, so the cost of the conversation is computed from its records, including those
written by earlier processes. Calls for summaries and notes leave no reply record; they are counted when they
are made and stored in the state file.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Final, Literal

import msgspec

from everturn.history.records import Record, Usage, record_time, reported_usage
from everturn.measure.model import US_ONLY, Model
from everturn.measure.model_table import find_model
from everturn.measure.pricing import PER_MILLION, WEB_SEARCH, BilledTokens, price_in_dollars

BillPurpose = Literal["conversation", "compact", "session_memory", "hold"]
BILL_PURPOSES: Final[tuple[BillPurpose, ...]] = ("conversation", "compact", "session_memory", "hold")
# Our choice: the last few say what is going on.
MAX_NOTES: Final = 8


class UsageTotals(msgspec.Struct, frozen=True, kw_only=True):
    """Calls for one purpose, and their tokens. Calls to a model without a known price count as 0 dollars."""

    calls: int = 0
    input: int = 0
    written: int = 0
    read: int = 0
    output: int = 0
    dollars: Decimal = Decimal()
    unpriced: int = 0

    def __add__(self, other: "UsageTotals") -> "UsageTotals":
        return UsageTotals(
            calls=self.calls + other.calls,
            input=self.input + other.input,
            written=self.written + other.written,
            read=self.read + other.read,
            output=self.output + other.output,
            dollars=self.dollars + other.dollars,
            unpriced=self.unpriced + other.unpriced,
        )


class Bill(msgspec.Struct, frozen=True):
    """The totals by purpose. `notes` say what made it higher than necessary."""

    parts: Mapping[BillPurpose, UsageTotals]
    notes: tuple[str, ...] = ()

    @property
    def total(self) -> UsageTotals:
        return sum(self.parts.values(), UsageTotals())

    @property
    def dollars(self) -> Decimal:
        return self.total.dollars


def price_usage(usage: Usage, model_id: str, on: date) -> UsageTotals:
    model = find_model(model_id)
    priced = model is not None and bool(model.prices)
    dollars = _price(usage, model, on) if model and priced else Decimal()
    return UsageTotals(
        calls=1,
        input=usage.input_tokens,
        written=usage.cache_creation_input_tokens,
        read=usage.cache_read_input_tokens,
        output=usage.output_tokens,
        dollars=dollars,
        unpriced=int(not priced),
    )


def _price(usage: Usage, model: Model, on: date) -> Decimal:
    """As `compute_priced_usage`, for a usage that has been read."""
    written, by_ttl = usage.cache_creation_input_tokens, usage.cache_creation
    write_1h = min(written, by_ttl.ephemeral_1h_input_tokens) if by_ttl else 0
    tokens = BilledTokens(
        input=usage.input_tokens,
        read=usage.cache_read_input_tokens,
        write_5m=written - write_1h,
        write_1h=write_1h,
        output=usage.output_tokens,
    )
    rates = model.rates(
        on=on, prompt_tokens=tokens.prompt, speed="fast" if usage.speed == "fast" else "standard"
    )
    if usage.inference_geo == "us" and model.us_surcharge:
        rates = rates.times(US_ONLY)
    return price_in_dollars(tokens, rates) + usage.searches * WEB_SEARCH / PER_MILLION


class Ledger:
    """Adds up usage. `asides` are the totals of summary and note calls, which the state file stores."""

    def __init__(
        self, records: Iterable[Record] = (), asides: Mapping[BillPurpose, UsageTotals] | None = None
    ) -> None:
        self._parts: dict[BillPurpose, UsageTotals] = {purpose: UsageTotals() for purpose in BILL_PURPOSES}
        self._parts.update(asides or {})
        self._counted: set[str] = set()
        self._notes: dict[str, str] = {}
        for record in records:
            self.heard(record)

    def heard(self, record: Record) -> None:
        """Count a reply of the conversation. Of a reply recorded in several pieces, only the first counts."""
        usage, reply = reported_usage(record), record.reply
        if usage is None or reply is None or reply.message_id in self._counted:
            return
        self._counted |= {reply.message_id} - {""}
        moment = record_time(record) or datetime.max.replace(tzinfo=UTC)
        self.paid("conversation", usage, reply.model, moment.date())

    def paid(self, purpose: BillPurpose, usage: Usage, model_id: str, on: date) -> None:
        self.add(purpose, price_usage(usage, model_id, on))

    def add(self, purpose: BillPurpose, spent: UsageTotals) -> None:
        self._parts[purpose] += spent

    def note(self, text: str, about: str = "") -> None:
        """Add a note to the bill; the newest ones are kept. It replaces an earlier one about the same."""
        self._notes.pop(about or text, None)
        self._notes[about or text] = text
        while len(self._notes) > MAX_NOTES:
            del self._notes[next(iter(self._notes))]

    @property
    def bill(self) -> Bill:
        return Bill(dict(self._parts), tuple(self._notes.values()))

    @property
    def asides(self) -> dict[BillPurpose, UsageTotals]:
        parts = self._parts.items()
        return {purpose: spent for purpose, spent in parts if purpose != "conversation" and spent.calls}
