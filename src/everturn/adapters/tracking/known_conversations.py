"""Which conversation a request belongs to.

The conversation that shares the longest prefix with the request is chosen. If the shared prefix contains a
recorded reply, the system prompt and tools may differ. Without one, only user messages match, as with two
sub-agents given the same task: then system prompt and tools must be equal, and the conversation must end
there.

    the request starts with the whole conversation      a continuation; nothing new means a retry
    the conversation has more after the shared part     a fork: a rewind, an edit, a branch, a regeneration
    nothing is shared                                   a new conversation
"""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from everturn.adapters.tracking.conversation import TrackedConversation

# Conversations that wait for a response may exceed the limit up to this factor. Our choice.
MAX_PENDING_FACTOR: Final = 4


class ConversationMatch(NamedTuple):
    """A conversation, and how many links of the request it shares."""

    tracked: TrackedConversation
    links: int

    @property
    def is_continuation(self) -> bool:
        return self.links == len(self.tracked.chain)


class KnownConversations:
    """Conversations in memory, indexed by every link; the least recently used first."""

    def __init__(self) -> None:
        self._conversations: OrderedDict[str, TrackedConversation] = OrderedDict()
        self._by_link: dict[bytes, set[str]] = {}
        self._by_reply: dict[str, str] = {}
        self._indexed_links: dict[str, int] = {}

    def __iter__(self) -> Iterator[TrackedConversation]:
        return iter(tuple(self._conversations.values()))

    def __len__(self) -> int:
        return len(self._conversations)

    def find(self, chain: Sequence[bytes], preamble_digest: bytes) -> ConversationMatch | None:
        for links in range(len(chain), 0, -1):
            known = (self._conversations[name] for name in self._by_link.get(chain[links - 1], ()))
            found = [
                ConversationMatch(tracked, links)
                for tracked in known
                if _may_be(tracked, links, preamble_digest)
            ]
            if found:
                return max(found, key=lambda each: self._rank(each, preamble_digest))
        return None

    def find_reply(self, message_id: str) -> ConversationMatch | None:
        """The conversation with this reply, up to and including the reply."""
        tracked = self._conversations.get(self._by_reply.get(message_id, ""))
        return ConversationMatch(tracked, tracked.replies[message_id]) if tracked else None

    def remember(self, tracked: TrackedConversation) -> None:
        """Index the new links of a conversation and make it the most recently used."""
        for each in tracked.chain[self._indexed_links.get(tracked.id, 0) :]:
            self._by_link.setdefault(each, set()).add(tracked.id)
        self._indexed_links[tracked.id] = len(tracked.chain)
        for each in reversed(tracked.replies):
            # Earlier replies are indexed already. A fork takes over the replies that it shares.
            if self._by_reply.get(each) == tracked.id:
                break
            self._by_reply[each] = tracked.id
        self._conversations[tracked.id] = tracked
        self._conversations.move_to_end(tracked.id)

    def forget(self, tracked: TrackedConversation) -> None:
        if self._conversations.pop(tracked.id, None) is None:
            return
        for each in tracked.chain[: self._indexed_links.pop(tracked.id, 0)]:
            holders = self._by_link[each]
            holders.discard(tracked.id)
            if not holders:
                del self._by_link[each]
        for each in tracked.replies:
            if self._by_reply.get(each) == tracked.id:
                del self._by_reply[each]

    def oldest_beyond(self, limit: int) -> TrackedConversation | None:
        """The least recently used conversation, if there are more than `limit`. One that waits for a response
        is skipped, unless too many do: an abandoned request never gets a response."""
        if len(self._conversations) <= limit:
            return None
        free = [tracked for tracked in self._conversations.values() if not tracked.users]
        idle = [tracked for tracked in free if not tracked.is_awaiting_reply]
        return next(iter(idle if len(self._conversations) <= limit * MAX_PENDING_FACTOR else free), None)

    def _rank(self, found: ConversationMatch, preamble_digest: bytes) -> tuple[bool, bool, int]:
        """For equal prefixes: prefer the same preamble, then a continuation, then the most recently used."""
        age = list(self._conversations).index(found.tracked.id)
        return found.tracked.preamble_digest == preamble_digest, found.is_continuation, age


def _may_be(tracked: TrackedConversation, links: int, preamble_digest: bytes) -> bool:
    if tracked.has_reply_within(links):
        return True
    return tracked.preamble_digest == preamble_digest and links == len(tracked.chain)
