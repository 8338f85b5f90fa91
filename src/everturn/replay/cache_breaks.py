"""Why the cache of a recorded session was cold: calls that read less than the one before had left (RP-3).

What a call leaves behind is what it read and wrote. The next one should read that; where it falls short by
more than the thresholds of `decide/cache_breaks.py`, the file tells why: a compaction, a clearing, another
model, a pause longer than the entry lives, messages that are not those of the call before. What remains is
unexplained by the file, and `replay/cache_check.py` says what its model of the cache makes of it.

Providers whose cache nobody writes to (no call of the thread reports a write) keep what they like for as long
as they like: their breaks are theirs, and our model of the cache does not judge them.
"""

from collections.abc import Iterator
from decimal import Decimal
from typing import Final, Literal

import msgspec

from everturn.decide.cache_breaks import BreakSettings
from everturn.history.records import Usage, reported_usage
from everturn.history.threads import Thread
from everturn.measure.model_table import find_model
from everturn.measure.prefix_cache import SECONDS, Ttl
from everturn.replay.cache_check import CacheCheck, CacheChecker
from everturn.replay.calls import RecordedCall, iter_calls
from everturn.replay.sessions import ReplaySession
from everturn.session.recorded import LONG_SUFFIX

CacheBreakReason = Literal["compaction", "clearing", "model", "idle", "messages", "provider", "unexplained"]

_NEAR: Final = 0.05


class CacheBreak(msgspec.Struct, frozen=True, kw_only=True):
    """A call that had to write what should have been read. `dollars` is what that cost beyond reading it."""

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
    # The id of the response, which a copy of the session repeats.
    message: str = ""


class SessionCacheCheck(msgspec.Struct, frozen=True):
    """A session beside our model of the cache: its breaks, and of how many calls how many were near."""

    breaks: tuple[CacheBreak, ...]
    calls: int
    near: int


def find_cache_breaks(session: ReplaySession, settings: BreakSettings | None = None) -> SessionCacheCheck:
    limits = settings or BreakSettings()
    breaks: list[CacheBreak] = []
    near = count = 0
    for thread in session.threads:
        last: RecordedCall | None = None
        for call, judged in _judged(session, thread):
            count += judged is not None
            near += judged is not None and judged.error <= _NEAR
            if last is not None and _is_break(last, call, limits):
                breaks.append(_explained(session, thread.agent, last, call, judged))
            last = call
    return SessionCacheCheck(tuple(breaks), count, near)


def check_session(session: ReplaySession) -> Iterator[CacheCheck]:
    """Every call that our model of the cache can judge: what it should have read, and what it reported."""
    for thread in session.threads:
        for _, judged in _judged(session, thread):
            if judged is not None:
                yield judged


def _judged(session: ReplaySession, thread: Thread) -> Iterator[tuple[RecordedCall, CacheCheck | None]]:
    usages = (reported_usage(record) for record in thread.records)
    writes = any(usage is not None and usage.cache_creation_input_tokens for usage in usages)
    judge = CacheChecker(session.name)
    for call in iter_calls(thread):
        yield call, judge.judge(call) if writes else None


def _left_behind(usage: Usage) -> int:
    return usage.cache_read_input_tokens + usage.cache_creation_input_tokens


def _is_break(last: RecordedCall, call: RecordedCall, limits: BreakSettings) -> bool:
    expected = _left_behind(last.usage)
    lost = expected - call.usage.cache_read_input_tokens
    return lost > limits.tokens and lost > expected * limits.share


def _explained(
    session: ReplaySession, agent: str, last: RecordedCall, call: RecordedCall, judged: CacheCheck | None
) -> CacheBreak:
    idle = (call.at - last.at).total_seconds() if call.at and last.at else 0.0
    reason, why = _reason(last, call, idle, judged)
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
    )


def _reason(
    last: RecordedCall, call: RecordedCall, idle: float, judged: CacheCheck | None
) -> tuple[CacheBreakReason, str]:
    if call.view_is_new:
        return "compaction", "the conversation was compacted"
    if last.model != call.model:
        return "model", f"the model changed from {last.model} to {call.model}"
    if judged is None:
        return "provider", "the provider's own cache, which promises nothing"
    ttl = _ttl(last.usage)
    if idle > SECONDS[ttl]:
        return "idle", f"{_span(idle)} passed; the prefix was written to live for {ttl}"
    if call.was_cleared:
        return "clearing", "old results were cleared from the context"
    if not _extends(last, call):
        return "messages", "earlier messages are not those of the call before: a rewind, or an edit"
    if judged.error <= _NEAR:
        return "messages", "the cache could not be found again: too many blocks were added at once"
    return "unexplained", judged.why


def _extends(last: RecordedCall, call: RecordedCall) -> bool:
    """Whether all that was sent before is sent again. The newest message may have been added to."""
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
    """The price of writing (or sending plainly) what was lost, less the price of reading it."""
    model = find_model(call.model.replace(LONG_SUFFIX, ""))
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
