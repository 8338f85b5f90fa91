"""An overview of a tracked conversation, and search in it."""

from typing import TYPE_CHECKING

import msgspec

from everturn.adapters.tracking.conversation import TrackedConversation
from everturn.errors import UsageError
from everturn.history.edits import Compacted
from everturn.session.bill import Bill

if TYPE_CHECKING:
    from everturn.session.recall.search import Hit


class ConversationOverview(msgspec.Struct, frozen=True, kw_only=True):
    """One conversation: `messages` counts the caller's list, `tokens` is the size of what everturn sends."""

    id: str
    # Path of the transcript; "" if there is none.
    path: str
    model: str
    messages: int
    tokens: int
    window: int
    compactions: int
    bill: Bill


def make_overview(tracked: TrackedConversation) -> ConversationOverview:
    conversation = tracked.runner.conversation
    setting = conversation.setting
    return ConversationOverview(
        id=tracked.id,
        path=tracked.transcript.path,
        model=setting.model.id,
        messages=len(tracked.chain),
        tokens=conversation.size.tokens,
        window=setting.model.window,
        compactions=sum(isinstance(record.edit, Compacted) for record in tracked.records),
        bill=tracked.ledger.bill,
    )


def recall_conversation(tracked: TrackedConversation, query: str, limit: int) -> "tuple[Hit, ...]":
    """Search the full history of a conversation, including what the model no longer sees."""
    from everturn.session.recall.index import RecallIndex
    from everturn.session.recall.search import recall

    if not tracked.transcript.path:
        raise UsageError(
            "Recall needs a transcript on disk, and this conversation is in memory only; set `folder`."
        )
    index = RecallIndex(tracked.transcript.path)
    try:
        return recall(query, limit, index=index, log=tracked.runner.conversation.log)
    finally:
        index.close()
