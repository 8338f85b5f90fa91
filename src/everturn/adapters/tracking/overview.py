"""An overview of a tracked conversation, and search in it."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from everturn.adapters.tracking.conversation import TrackedConversation
from everturn.decide.economy.decisions import EconomicDecision
from everturn.errors import EverturnError, UsageError
from everturn.history.blocks import block_from_fields
from everturn.history.edits import Compacted
from everturn.session.bill import Bill
from everturn.view.fragments.recalled import NAME

if TYPE_CHECKING:
    from everturn.session.recall.index import RecallIndex
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
    # The latest decisions that were made by price, the newest last (EC-1).
    decisions: tuple[EconomicDecision, ...] = ()


def make_overview(tracked: TrackedConversation) -> ConversationOverview:
    conversation = tracked.runner.conversation
    setting = conversation.setting
    return ConversationOverview(
        id=tracked.id,
        path=tracked.transcript.path,
        model=setting.model.id,
        messages=tracked.messages,
        tokens=conversation.size.tokens,
        window=setting.model.window,
        compactions=sum(isinstance(record.edit, Compacted) for record in tracked.records),
        bill=tracked.ledger.bill,
        decisions=conversation.economy.decisions,
    )


def recall_conversation(tracked: TrackedConversation, query: str, limit: int) -> "tuple[Hit, ...]":
    """Search the full history of a conversation, including what the model no longer sees."""
    from everturn.session.recall.search import recall

    with _open_index(tracked) as index:
        return recall(query, limit, index=index, log=tracked.runner.conversation.log)


def answer_recall(tracked: TrackedConversation, given: Mapping[str, Any]) -> str:
    """The answer to a call of the recall tool; a problem is an answer too."""
    from everturn.session.recall.tool import answer_tool

    call = block_from_fields({"type": "tool_use", "id": "", "name": NAME, "input": dict(given)})
    try:
        with _open_index(tracked) as index:
            return answer_tool(call, index=index, log=tracked.runner.conversation.log)
    except EverturnError as problem:
        return str(problem)


@contextmanager
def _open_index(tracked: TrackedConversation) -> "Generator[RecallIndex, None, None]":
    from everturn.session.recall.index import RecallIndex

    if not tracked.transcript.path:
        raise UsageError(
            "Recall needs a transcript on disk, and this conversation is in memory only; set `folder`."
        )
    store = tracked.transcript.store
    index = RecallIndex(store.write_copy() if store else tracked.transcript.path)
    try:
        yield index
    finally:
        index.close()
