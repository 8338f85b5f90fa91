"""What every adapter offers its user: the bill, the conversations, search, and changes on request.

A conversation is named by its id; without one, the most recently used is meant. The methods have the names
and results of those of a `Session`. A caller keeps its own list, so two of them differ: a compaction happens
before the next request, and `rewind` returns the messages to go on with.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from everturn.adapters.tracking.overview import (
    ConversationOverview,
    answer_recall,
    make_overview,
    recall_conversation,
)
from everturn.adapters.tracking.tracker import ConversationTracker
from everturn.decide.compact.chain import plan_undo
from everturn.decide.compact.values import CompactionSkipped
from everturn.errors import UsageError
from everturn.history.edits import Pinned, Undone
from everturn.session.bill import Bill
from everturn.session.tools import Tool
from everturn.view.fragments.recalled import TOOL as RECALL

if TYPE_CHECKING:
    from everturn.session.recall.search import Hit


class TrackedConversations:
    """The part of an adapter that its user sees. The rest of the adapter uses `tracker`."""

    def __init__(self, tracker: ConversationTracker) -> None:
        self.tracker = tracker

    @property
    def bill(self) -> Bill:
        """What all calls of this adapter have cost so far, including summaries."""
        return self.tracker.bill

    @property
    def conversations(self) -> tuple[ConversationOverview, ...]:
        """The conversations in memory, the most recently used last."""
        return tuple(map(make_overview, self.tracker))

    @property
    def unsupported(self) -> dict[str, int]:
        """How many requests were sent unchanged because everturn cannot rebuild them, by reason."""
        return dict(self.tracker.unsupported)

    def recall(self, query: str, limit: int = 8, *, conversation: str = "") -> "tuple[Hit, ...]":
        """Search the full history of a conversation, by default the most recently used one."""
        return recall_conversation(self.tracker.find(conversation), query, limit)

    def compact(self, instructions: str = "", *, conversation: str = "") -> None:
        """Compact a conversation, by default the most recently used one, before its next request."""
        self.tracker.find(conversation).request_compaction(instructions)

    def undo(self, *, conversation: str = "") -> Undone | CompactionSkipped:
        """Undo the last compaction of a conversation. Its next request has the earlier messages again."""
        tracked = self.tracker.find(conversation)
        with tracked.lock.acquire():
            edit = plan_undo(tracked.runner.conversation.log.view)
            if isinstance(edit, Undone):
                tracked.append_edit(edit, self.tracker.parts.new_id())
        return edit

    def pin(self, text: str, *, conversation: str = "") -> None:
        """Pin a text: every later compaction of the conversation keeps it word for word."""
        if not text.strip():
            raise UsageError("No text to pin; give the text that must be kept.")
        tracked = self.tracker.find(conversation)
        with tracked.lock.acquire():
            tracked.append_edit(Pinned(text, "pinned by the program"), self.tracker.parts.new_id())

    def rewind(self, uuid: str = "", *, conversation: str = "") -> list[dict[str, Any]]:
        """Go back to a message of the caller, named by its record (`recall` gives it), or to the last one.
        Returns the messages before it: send them and a new message. What was decided since then does not
        hold for them; the conversation that is left stays as it is, and its list can be sent again."""
        fork = self.tracker.rewind(self.tracker.find(conversation), uuid)
        return fork.known.list_messages() if fork else []

    @property
    def recall_tool(self) -> Tool:
        """The recall tool: give `definition` to the model, and answer its calls with `run`. A call is
        answered from the conversation whose last reply has made it."""
        return Tool(RECALL, self.answer_recall)

    def answer_recall(self, given: Mapping[str, Any], call: str = "") -> str:
        """The answer to a call of the recall tool. With the id of the call, its conversation is certain."""
        tracked = self.tracker.find_call(given, call)
        if tracked is None:
            return (
                "This call belongs to no conversation that can be told from the others; recall has no answer."
            )
        return answer_recall(tracked, given)

    def close(self) -> None:
        """Close the transcripts, so that other processes can use them. The next request opens them again."""
        self.tracker.close()
