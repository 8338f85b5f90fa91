"""Which conversation a request belongs to.

The longest beginning that is known decides. Where nothing but the user's words is known, as between two
sub-agents that were given the same task, the system prompt and tools must be the same too, and nothing may
have followed: that much could be said in many conversations. A reply that we saw makes it this one, under
whatever prompt.

    all of the shadow is known         it goes on: what is new is appended; nothing new is a retry
    the shadow has more behind it      a fork: a rewind, an edit, a branch, or the same asked again
    nothing is known                   a new conversation
"""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from everturn.adapters.tracking.conversation import TrackedConversation

# How many times the wanted number may be held while answers are waited for. Our choice.
PATIENCE: Final = 4


class ConversationMatch(NamedTuple):
    """A shadow, and how many links of the request it knows."""

    tracked: TrackedConversation
    links: int

    @property
    def goes_on(self) -> bool:
        return self.links == len(self.tracked.chain)


class KnownConversations:
    """Shadows in memory, by every link of theirs; the one unused for longest first."""

    def __init__(self) -> None:
        self._shadows: OrderedDict[str, TrackedConversation] = OrderedDict()
        self._by_link: dict[bytes, set[str]] = {}
        self._by_reply: dict[str, str] = {}
        self._noted: dict[str, int] = {}

    def __iter__(self) -> Iterator[TrackedConversation]:
        return iter(tuple(self._shadows.values()))

    def __len__(self) -> int:
        return len(self._shadows)

    def find(self, chain: Sequence[bytes], head: bytes) -> ConversationMatch | None:
        for links in range(len(chain), 0, -1):
            known = (self._shadows[name] for name in self._by_link.get(chain[links - 1], ()))
            found = [ConversationMatch(shadow, links) for shadow in known if _may_be(shadow, links, head)]
            if found:
                return max(found, key=lambda each: self._rank(each, head))
        return None

    def find_reply(self, message_id: str) -> ConversationMatch | None:
        """The conversation with this reply of ours, up to it."""
        shadow = self._shadows.get(self._by_reply.get(message_id, ""))
        return ConversationMatch(shadow, shadow.replies[message_id]) if shadow else None

    def note(self, shadow: TrackedConversation) -> None:
        """A shadow that was just used, with whatever links it has now."""
        for made in shadow.chain[self._noted.get(shadow.id, 0) :]:
            self._by_link.setdefault(made, set()).add(shadow.id)
        self._noted[shadow.id] = len(shadow.chain)
        for made in reversed(shadow.replies):
            # Most are known; a fork takes over those that it shares.
            if self._by_reply.get(made) == shadow.id:
                break
            self._by_reply[made] = shadow.id
        self._shadows[shadow.id] = shadow
        self._shadows.move_to_end(shadow.id)

    def forget(self, shadow: TrackedConversation) -> None:
        if self._shadows.pop(shadow.id, None) is None:
            return
        for made in shadow.chain[: self._noted.pop(shadow.id, 0)]:
            holders = self._by_link[made]
            holders.discard(shadow.id)
            if not holders:
                del self._by_link[made]
        for made in shadow.replies:
            if self._by_reply.get(made) == shadow.id:
                del self._by_reply[made]

    def oldest_beyond(self, most: int) -> TrackedConversation | None:
        """The one unused for longest, where there are more than so many. One whose answer is waited for stays
        unless too many do: abandoned requests are never answered."""
        if len(self._shadows) <= most:
            return None
        free = [shadow for shadow in self._shadows.values() if not shadow.wanted]
        idle = [shadow for shadow in free if not shadow.is_awaiting_reply]
        return next(iter(idle if len(self._shadows) <= most * PATIENCE else free), None)

    def _rank(self, found: ConversationMatch, head: bytes) -> tuple[bool, bool, int]:
        """Of two that know as much: the same prompt, then no fork needed, then the one used last."""
        age = list(self._shadows).index(found.tracked.id)
        return found.tracked.preamble_digest == head, found.goes_on, age


def _may_be(shadow: TrackedConversation, links: int, head: bytes) -> bool:
    if shadow.has_reply_within(links):
        return True
    return shadow.preamble_digest == head and links == len(shadow.chain)
