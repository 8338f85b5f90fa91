"""What came since the last request, when the context is full: a fork need not send it (CP-10, PC-12).

The provider's cache holds what was sent. The model's last answer and the results of its calls were not sent,
so a fork that summarizes them too pays for them in full. Where they are large they are kept word for word
behind the summary, and the fork is the last request with one more question. Division itself: `divide.py`.
"""

import msgspec

from everturn.decide.compact.context import CompactionContext
from everturn.decide.compact.values import CompactionPlan
from everturn.history.records import Record
from everturn.measure.tokens import TokenCount
from everturn.view.flatten import flatten
from everturn.view.forks import CapturedRequest
from everturn.view.tool_loop import unsendable_calls


def first_unsent(
    plan: CompactionPlan, context: CompactionContext, *, least_share: float | None = None
) -> str:
    """The record at which to divide; "" where everything is to be summarized: because somebody asked for
    that, because little is new, or because the last request cannot be told from the rest."""
    if plan.asked.trigger != "auto" and not plan.keeps_newest:
        return ""
    records = tuple(context.view.records)
    least = context.settings.unsent_share if least_share is None else least_share
    at = _last_answer(records)
    if at <= 0 or _tokens(records[at:], context) < least * context.size:
        return ""
    return records[at].uuid if _sent(records[:at], context) is not None else ""


def as_sent(plan: CompactionPlan, context: CompactionContext) -> CapturedRequest | None:
    """The conversation as the last request had it, where that is exactly what is summarized."""
    return _sent(plan.summarized, context) if plan.asked.form == "up_to" else None


def _last_answer(records: tuple[Record, ...]) -> int:
    """Where the newest response begins; -1 where there is none. Streaming may have cut it into pieces."""
    newest = next((each for each in reversed(records) if each.kind == "assistant"), None)
    if newest is None:
        return -1
    name = newest.message_id
    return next(at for at, each in enumerate(records) if each is newest or (name and each.message_id == name))


def _tokens(records: tuple[Record, ...], context: CompactionContext) -> int:
    return sum((context.counts.of(record).whole for record in records), TokenCount()).padded


def _sent(records: tuple[Record, ...], context: CompactionContext) -> CapturedRequest | None:
    """None where the messages differ or a breakpoint stands behind them: the prefix would differ. And where
    they end in a tool loop that was sent in another mode of thinking: in this one the API would refuse it."""
    captured, shown = context.captured, flatten(msgspec.structs.replace(context.view, records=records))
    messages = captured.messages[: len(shown.messages)]
    reach = max((spot.message for spot, _ in context.answered.places), default=-1)
    if tuple(shown.messages) != messages or not -1 < reach < len(messages):
        return None
    thinking = (captured.parameters.thinking or {}).get("type", "")
    if unsendable_calls(messages, thinking):
        return None
    return msgspec.structs.replace(captured, messages=messages, breakpoints=context.answered)
