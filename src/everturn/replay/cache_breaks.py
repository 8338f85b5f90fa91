"""Cache breaks in recorded sessions: calls that read less than the previous call had cached (RP-3).

A call leaves in the cache what it read and wrote, and the next call should read all of it. When it reads
less, by more than the thresholds of `decide/cache_breaks.py`, the file usually shows why: a compaction,
cleared results, a different model, a pause longer than the TTL, or messages that differ from the previous
call. Breaks without such a cause are reported as unexplained, with what `replay/cache_check.py` found.

Some providers cache implicitly: no call of the thread reports a cache write. They make no promise about what
they keep, so our cache model does not check them.
"""

from collections.abc import Iterator
from decimal import Decimal
from typing import Final, Literal

import msgspec

from everturn.decide.cache_breaks import BreakSettings
from everturn.history.records import Usage, reported_usage
from everturn.history.threads import Thread
from everturn.measure.prefix_cache import SECONDS, Ttl
from everturn.replay.cache_check import CacheCheck, CacheChecker
from everturn.replay.calls import RecordedCall, iter_calls
from everturn.replay.sessions import ReplaySession
from everturn.session.recorded import find_recorded_model

CacheBreakReason = Literal["compaction", "clearing", "model", "idle", "messages", "provider", "unexplained"]

_NEAR: Final = 0.05


class CacheBreak(msgspec.Struct, frozen=True, kw_only=True):
    """A call that wrote what it should have read. `dollars` is the extra cost compared with reading it."""

    session: str
    agent: str
    number: int
    at: str
    model: str
    reason: CacheBreakReason
    why: str
    lost: int
    idle: float
    dollars: Decimal | None
    # The id of the response, which copies of the session repeat.
    message: str = ""
    # The path of the session.
    path: str = ""


class SessionCacheCheck(msgspec.Struct, frozen=True):
    """The cache breaks of a session, the number of checked calls, and how many were predicted within 5%."""

    breaks: tuple[CacheBreak, ...]
    calls: int
    near: int


def find_cache_breaks(session: ReplaySession, settings: BreakSettings | None = None) -> SessionCacheCheck:
    limits = settings or BreakSettings()
    breaks: list[CacheBreak] = []
    near = count = 0
    for thread in session.threads:
        last: RecordedCall | None = None
        for call, check in _checked_calls(session, thread):
            count += check is not None
            near += check is not None and check.error <= _NEAR
            if limits.leaves_out(call.model):
                continue
            if last is not None and _is_break(last, call, limits):
                breaks.append(_explained(session, thread.agent, last, call, check))
            last = call
    return SessionCacheCheck(tuple(breaks), count, near)


def _checked_calls(
    session: ReplaySession, thread: Thread
) -> Iterator[tuple[RecordedCall, CacheCheck | None]]:
    usages = (reported_usage(record) for record in thread.records)
    writes = any(usage is not None and usage.cache_creation_input_tokens for usage in usages)
    checker = CacheChecker(session.name)
    for call in iter_calls(thread):
        yield call, checker.check(call) if writes else None


def _left_behind(usage: Usage) -> int:
    return usage.cache_read_input_tokens + usage.cache_creation_input_tokens


def _is_break(last: RecordedCall, call: RecordedCall, limits: BreakSettings) -> bool:
    expected = _left_behind(last.usage)
    lost = expected - call.usage.cache_read_input_tokens
    return lost > limits.tokens and lost > expected * limits.share


def _explained(
    session: ReplaySession, agent: str, last: RecordedCall, call: RecordedCall, check: CacheCheck | None
) -> CacheBreak:
    idle = (call.at - last.at).total_seconds() if call.at and last.at else 0.0
    reason, why = _reason(last, call, idle, check)
    lost = _left_behind(last.usage) - call.usage.cache_read_input_tokens
    return CacheBreak(
        session=session.name,
        agent=agent,
        number=call.number,
        at=call.first.timestamp,
        model=call.model,
        reason=reason,
        why=why,
        lost=lost,
        idle=idle,
        dollars=_extra(call, lost),
        message=call.first.message_id,
        path=session.path,
    )


def _reason(
    last: RecordedCall, call: RecordedCall, idle: float, check: CacheCheck | None
) -> tuple[CacheBreakReason, str]:
    if call.view_is_new:
        return "compaction", "the conversation was compacted"
    if last.model != call.model:
        return "model", f"the model changed from {last.model} to {call.model}"
    if check is None:
        return "provider", "implicit caching by the provider, with no guaranteed lifetime"
    ttl = _ttl(last.usage)
    if idle > SECONDS[ttl]:
        return "idle", f"{_span(idle)} idle; the cache entry had a TTL of {ttl}"
    if call.was_cleared:
        return "clearing", "old results were cleared from the context"
    if not _extends(last, call):
        return "messages", "earlier messages differ from the previous call (a rewind or an edit)"
    if check.error <= _NEAR:
        return "messages", "no cache entry in reach: too many blocks were added at once"
    return "unexplained", check.why


def _extends(last: RecordedCall, call: RecordedCall) -> bool:
    """Whether this call repeats everything the last one sent. The newest message may have new blocks."""
    if len(call.messages) < len(last.messages):
        return False
    whole = last.messages[:-1]
    if call.messages[: len(whole)] != whole:
        return False
    blocks = last.messages[-1].blocks if last.messages else ()
    return not blocks or call.messages[len(whole)].blocks[: len(blocks)] == blocks


def _ttl(usage: Usage) -> Ttl:
    written = usage.cache_creation
    return "1h" if written and written.ephemeral_1h_input_tokens else "5m"


def _span(seconds: float) -> str:
    minutes = round(seconds / 60)
    if minutes < 120:
        return f"{minutes} minutes"
    hours = round(minutes / 60)
    return f"{hours} hours" if hours < 48 else f"{round(hours / 24)} days"


def _extra(call: RecordedCall, lost: int) -> Decimal | None:
    """The price of writing what was lost (or sending it uncached), minus the price of reading it."""
    model = find_recorded_model(call.model)
    if model is None:
        return None
    usage = call.usage
    on = call.at.date() if call.at else model.released
    rates = model.rates(on=on, prompt_tokens=usage.context)
    again = min(lost, usage.context - usage.cache_read_input_tokens)
    written = min(again, usage.cache_creation_input_tokens)
    write = rates.write_1h if _ttl(usage) == "1h" else rates.write_5m
    paid = written * write + (again - written) * rates.input
    return (paid - again * rates.read) / 1_000_000
