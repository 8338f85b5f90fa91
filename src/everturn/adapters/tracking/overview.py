"""What people want to see of the conversations that an adapter holds."""

from typing import TYPE_CHECKING

import msgspec

from everturn.adapters.tracking.conversation import TrackedConversation
from everturn.errors import UsageError
from everturn.history.edits import Compacted
from everturn.session.bill import Bill

if TYPE_CHECKING:
    from everturn.session.recall.search import Hit


class ConversationOverview(msgspec.Struct, frozen=True, kw_only=True):
    """One conversation: how long the caller's list is, and how much of the window ours takes."""

    id: str
    # Its transcript; "" where none is kept.
    path: str
    model: str
    messages: int
    tokens: int
    window: int
    compactions: int
    bill: Bill


def make_overview(shadow: TrackedConversation) -> ConversationOverview:
    conversation = shadow.runner.conversation
    setting = conversation.setting
    return ConversationOverview(
        id=shadow.id,
        path=shadow.kept.path,
        model=setting.model.id,
        messages=len(shadow.chain),
        tokens=conversation.size.tokens,
        window=setting.model.window,
        compactions=sum(isinstance(record.edit, Compacted) for record in shadow.records),
        bill=shadow.ledger.bill,
    )


def recall_conversation(shadow: TrackedConversation, query: str, limit: int) -> "tuple[Hit, ...]":
    """Where a conversation has these words, also what the model no longer sees."""
    from everturn.session.recall.index import RecallIndex
    from everturn.session.recall.search import recall

    if not shadow.kept.path:
        raise UsageError("Nothing can be recalled from memory alone; give the middleware a folder.")
    index = RecallIndex(shadow.kept.path)
    try:
        return recall(query, limit, index=index, log=shadow.runner.conversation.log)
    finally:
        index.close()
