"""What the calls of recorded sessions cost, each response counted once (RP-7).

A response is spread over several lines that repeat its usage, and a resumed or forked session repeats whole
conversations in another file. A response is identified by its message id and request id. Its most complete
usage counts, for the day and project where it was first seen. Output tokens are recorded during streaming and
are often too small (FORMATS 1), so their price is a lower bound.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta, tzinfo
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

import msgspec

from everturn.catalog.practice import is_practice
from everturn.history.records import Record, Usage, fuller_usage, name_responses, record_time, reported_usage
from everturn.measure.model import Model
from everturn.measure.pricing import PriceLine, compute_priced_usage
from everturn.replay.sessions import ReplaySession
from everturn.session.recorded import find_recorded_model

NO_DAY: Final = "no date"
GROUPINGS: Final = ("session", "day", "week", "month", "project", "model", "agent")
NO_MODEL: Final = "unknown model"


class BilledCall(msgspec.Struct, frozen=True, gc=False):
    """One response: where it belongs and what it reported. `day` is in UTC, as prices are; `session` is the
    path of the session, and `agent` is the program that recorded it."""

    key: str
    day: str
    project: str
    model: str
    usage: Usage
    # The reported usage as JSON, including fields that only pricing needs (iterations, speed, searches).
    reported: bytes
    at: datetime | None = None
    session: str = ""
    agent: str = ""


class CallTotals(msgspec.Struct):
    """Sums over calls. Dollars and tokens are by kind, with the names of `measure/pricing.py`."""

    calls: int = 0
    tokens: Counter[str] = msgspec.field(default_factory=lambda: Counter[str]())
    dollars_by_kind: dict[str, Decimal] = msgspec.field(default_factory=lambda: dict[str, Decimal]())
    # Calls to models without a known price, by model.
    unpriced: Counter[str] = msgspec.field(default_factory=lambda: Counter[str]())

    @property
    def dollars(self) -> Decimal:
        return sum(self.dollars_by_kind.values(), Decimal(0))

    @property
    def context(self) -> int:
        return sum(self.tokens.values()) - self.tokens["output"]

    @property
    def hit_rate(self) -> float | None:
        """The share of the input that came from the cache; None if there was no input."""
        return self.tokens["cache_read"] / self.context if self.context else None

    def add(self, paid: BilledCall, *, times: int = 1) -> None:
        """Adds a call; `times=-1` subtracts it."""
        self.calls += times
        self.tokens.update({kind: times * count for kind, count in _tokens(paid.usage).items()})
        lines = _price_lines(paid.model, paid.day, paid.reported)
        if lines is None:
            self.unpriced[paid.model] += times
            return
        for line in lines:
            before = self.dollars_by_kind.get(line.kind, Decimal(0))
            self.dollars_by_kind[line.kind] = before + times * line.dollars


@lru_cache(maxsize=16)
def _price_lines(name: str, day: str, reported: bytes) -> tuple[PriceLine, ...] | None:
    """What a call costs, by kind; None without a known price. Cached because every grouping adds the call."""
    model = find_recorded_model(name)
    if model is None:
        return None
    on = _priced_on(day, model)
    return tuple(compute_priced_usage(msgspec.json.decode(reported), model, on=on).lines)


def find_priced(calls: Iterable[BilledCall]) -> Iterator[tuple[Model, date]]:
    """The model of each call that has one in the table, and the day whose prices it has."""
    for call in calls:
        if (model := find_recorded_model(call.model)) is not None:
            yield model, _priced_on(call.day, model)


def _priced_on(day: str, model: Model) -> date:
    """Prices change over time. A call without a date is priced as on the model's release date."""
    return model.released if day == NO_DAY else date.fromisoformat(day)


def _tokens(usage: Usage) -> dict[str, int]:
    written = usage.cache_creation
    hour = min(max(0, written.ephemeral_1h_input_tokens), usage.cache_creation_input_tokens) if written else 0
    return {
        "input": usage.input_tokens,
        "cache_read": usage.cache_read_input_tokens,
        "cache_write_5m": usage.cache_creation_input_tokens - hour,
        "cache_write_1h": hour,
        "output": usage.output_tokens,
    }


def iter_billed_calls(session: ReplaySession, project: str, agent: str = "") -> Iterator[BilledCall]:
    """The responses of a session, including those of sub-agents and of abandoned branches, without practice.
    Without `agent`, the format says who recorded it."""
    found: dict[str, BilledCall] = {}
    for record, key in with_response_keys(session):
        if (paid := _paid(record, key, session, project, agent)) is not None:
            first = found.get(paid.key, paid)
            found[paid.key] = msgspec.structs.replace(_fuller(first, paid), day=first.day, at=first.at)
    return iter(found.values())


def _fuller(known: BilledCall, other: BilledCall) -> BilledCall:
    return known if fuller_usage(known.usage, other.usage) is known.usage else other


def find_practice(session: ReplaySession) -> frozenset[str]:
    """The ids of the messages that nobody paid for."""
    replies = (record.reply for record in _records(session))
    return frozenset(each.message_id for each in replies if each and is_practice(each.request_id))


def _records(session: ReplaySession) -> Iterator[Record]:
    return (record for thread in session.threads for record in (*thread.records, *thread.abandoned))


def with_response_keys(session: ReplaySession) -> Iterator[tuple[Record, str]]:
    """Every record with the key of its response, which is the same in every file that repeats it; "" for
    records that are no part of one.
    """
    for thread in session.threads:
        records = (*thread.records, *thread.abandoned)
        for record, name in zip(records, name_responses(records), strict=True):
            reply = record.reply
            if reply is None or not name:
                yield record, ""
            elif record.raw and (reply.message_id or reply.request_id):
                yield record, f"{reply.message_id} {reply.request_id}"
            else:
                # Ids that we generate are the same in every file; the session makes them distinct.
                yield record, f"{session.path} {name if record.raw else record.uuid}"


def _paid(record: Record, key: str, session: ReplaySession, project: str, agent: str) -> BilledCall | None:
    usage = reported_usage(record)
    if usage is None or record.reply is None or is_practice(record.reply.request_id):
        return None
    moment = record_time(record)
    reply = record.reply
    return BilledCall(
        key=key,
        day=moment.date().isoformat() if moment else NO_DAY,
        project=project,
        model=reply.model or NO_MODEL,
        usage=usage,
        reported=_as_reported(record, usage),
        at=moment,
        session=session.path,
        agent=agent or session.format,
    )


class _Message(msgspec.Struct):
    usage: msgspec.Raw = msgspec.Raw(b"null")


class _Line(msgspec.Struct):
    message: _Message = msgspec.field(default_factory=_Message)


_read_line = msgspec.json.Decoder(_Line).decode


def _as_reported(record: Record, usage: Usage) -> bytes:
    try:
        raw = bytes(_read_line(record.raw).message.usage)
    except msgspec.DecodeError:
        raw = b""
    return raw if raw.startswith(b"{") else msgspec.json.encode(usage)


class CallLedger:
    """Calls over many files, each counted once, in total and by every grouping. Days are those of `zone`."""

    def __init__(self, zone: tzinfo | None = None) -> None:
        self._zone = zone or UTC
        self.total = CallTotals()
        self.by: Mapping[str, dict[str, CallTotals]] = {name: {} for name in GROUPINGS}
        self.repeated = 0
        self._known: dict[str, BilledCall] = {}

    def add_calls(self, calls: Iterable[BilledCall]) -> CallTotals:
        """Adds calls and returns the sums of those that were not known before."""
        fresh = CallTotals()
        for paid in calls:
            known = self._known.get(paid.key)
            if known is None:
                fresh.add(paid)
            else:
                self.repeated += 1
                self._count(known, times=-1)
                paid = msgspec.structs.replace(
                    _fuller(known, paid),
                    day=known.day,
                    project=known.project,
                    at=known.at,
                    session=known.session,
                    agent=known.agent,
                )
            self._known[paid.key] = paid
            self._count(paid, times=1)
        return fresh

    def _count(self, paid: BilledCall, *, times: int) -> None:
        self.total.add(paid, times=times)
        for name, key in self._keys(paid).items():
            self.by[name].setdefault(key, CallTotals()).add(paid, times=times)

    def _keys(self, paid: BilledCall) -> dict[str, str]:
        named = {"session": paid.session, "project": paid.project, "model": paid.model, "agent": paid.agent}
        try:
            local = paid.at.astimezone(self._zone).date() if paid.at else None
            monday = local - timedelta(days=local.weekday()) if local else None
        except (OverflowError, ValueError):
            # The first or last day that a date can have, in another time zone.
            local = monday = None
        if local is None:
            return {**named, "day": NO_DAY, "week": NO_DAY, "month": NO_DAY}
        return {**named, "day": f"{local}", "week": f"{monday}", "month": f"{local}"[:7]}


def as_values(sums: CallTotals) -> dict[str, Any]:
    """The sums for JSON: tokens and dollars by kind, and derived values."""
    return {
        "calls": sums.calls,
        "tokens": {kind: count for kind, count in sums.tokens.items() if count},
        "dollars": sums.dollars,
        "dollars_by_kind": sums.dollars_by_kind,
        "hit_rate": sums.hit_rate,
        "unpriced": {model: count for model, count in sums.unpriced.items() if count},
    }
