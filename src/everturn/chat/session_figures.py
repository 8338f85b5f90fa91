"""What the chat shows of its session: how full the context is, how long the cache stays warm, what was said
last."""

from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal

from everturn.chat.screen.status import StatusFigures
from everturn.chat.screen.welcome import ResumedConversation
from everturn.dashboard.report import context_level
from everturn.history.blocks import text_of
from everturn.history.records import Record, RecordKind, record_time
from everturn.measure.prefix_cache import SECONDS
from everturn.session.session import Session


def measure_status(session: Session, now: datetime, dollars: Decimal, *, is_practice: bool) -> StatusFigures:
    """The figures of the status line. `dollars` is the cost of the conversation with its searches."""
    context, spent = session.context(), session.bill.parts["conversation"]
    seen = spent.read + spent.written + spent.input
    return StatusFigures(
        used_share=context.size.tokens / context.window,
        level=context_level(context.levels),
        hit_rate=spent.read / seen if seen else None,
        cache_seconds_left=cache_seconds_left(session, now),
        dollars=dollars,
        model=context.model,
        is_practice=is_practice,
    )


def cache_seconds_left(session: Session, now: datetime) -> float | None:
    """Seconds until the prompt cache expires, counted from the last answer."""
    last = _last_answer_time(session)
    if last is None:
        return None
    lives = SECONDS[session.conversation.setting.parameters.lifetime.ttl]
    left = lives - (now.astimezone(UTC) - last).total_seconds()
    return left if left > 0 else None


def is_cache_cold(session: Session, now: datetime) -> bool:
    """Whether there was something in the cache, and it has expired."""
    return _last_answer_time(session) is not None and cache_seconds_left(session, now) is None


def _last_answer_time(session: Session) -> datetime | None:
    records = session.conversation.log.records
    return next((record_time(each) for each in reversed(records) if each.reply is not None), None)


def describe_resumed(session: Session) -> ResumedConversation | None:
    """Length and last messages of a conversation; None if it is empty."""
    sent = [record for record in session.conversation.log.records if record.kind in ("user", "assistant")]
    if not sent:
        return None
    return ResumedConversation(
        id=session.id,
        messages=len(sent),
        tokens=session.context().size.tokens,
        asked=_last_words(sent, "user"),
        answered=_last_words(sent, "assistant"),
        is_finished=_is_finished(sent[-1]),
    )


def _last_words(records: Sequence[Record], kind: RecordKind) -> str:
    for record in reversed(records):
        words = " ".join(text_of(block) for block in record.blocks if block.kind == "text")
        if record.kind == kind and words.strip() and not (record.meta or record.compact_summary):
            return words
    return ""


def _is_finished(last: Record) -> bool:
    """A turn ends with text of the model. Records that programs append do not start a new turn."""
    if last.kind == "user":
        return last.meta or last.compact_summary
    return not any(block.kind == "tool_use" for block in last.blocks)
