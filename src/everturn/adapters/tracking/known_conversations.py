"""Which conversation a request belongs to.

The conversation that shares the longest prefix with the request is chosen. If the shared prefix contains a
recorded reply, the system prompt and tools may differ. Without one, only user messages match, as with two
sub-agents given the same task: then system prompt and tools must be equal, and the conversation must end
there. Or the caller keeps its own words in the place of every reply: then they match, up to the last reply.

    the request starts with the whole conversation      a continuation; nothing new means a retry
    the same, without a part of the newest message      a continuation, if the replies in it prove it
    the same, without a part of what is summarized      a continuation, likewise
    the conversation has more after the shared part     a fork: a rewind, an edit, a branch, a regeneration
    nothing is shared                                   a new conversation
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from everturn.adapters.tracking.caller_list import SummarizedMatch
from everturn.adapters.tracking.caller_request import CallerRequest
from everturn.adapters.tracking.chain import common_prefix_length
from everturn.adapters.tracking.conversation import TrackedConversation
from everturn.adapters.tracking.respelling import Rewriting
from everturn.adapters.tracking.scopes import is_in_scope

# Conversations that wait for a response may exceed the limit up to this factor. Our choice.
MAX_PENDING_FACTOR: Final = 4


class ConversationMatch(NamedTuple):
    """A conversation, how many of its links belong to the request, and how many of the request's links they
    are: a request that leaves out a part of what was sent has fewer. `is_continuation`: those are all links
    that the conversation had when they were compared. It may grow before somebody asks: another request of
    the caller may be in work."""

    tracked: TrackedConversation
    links: int
    covered: int
    is_continuation: bool
    # How the request spells what is summarized, if it lacks a part of it.
    summarized: SummarizedMatch | None = None

    @property
    def rewriting(self) -> Rewriting | None:
        """The message that was written anew, if there is one."""
        return self.summarized.spelling.rewriting if self.summarized else None

    def is_continued_by(self, request: CallerRequest) -> bool:
        """Whether the request continues the conversation. Known history under another scope is a fork."""
        return self.is_continuation and is_in_scope(self.tracked.id, request.scope)


class KnownConversations:
    """Conversations in memory, indexed by every link; the least recently used first."""

    def __init__(self) -> None:
        self._conversations: OrderedDict[str, TrackedConversation] = OrderedDict()
        self._by_link: dict[bytes, set[str]] = {}
        self._by_reply: dict[str, str] = {}
        # The links of each conversation that are in `_by_link`.
        self._indexed: dict[str, list[bytes]] = {}

    def __iter__(self) -> Iterator[TrackedConversation]:
        return iter(tuple(self._conversations.values()))

    def __len__(self) -> int:
        return len(self._conversations)

    def find(
        self, chain: Sequence[bytes], preamble_digest: bytes, scope: str = "", last_reply: int = 0
    ) -> ConversationMatch | None:
        """The conversation with the longest common prefix. One of another scope comes second to one of the
        same scope that has all replies of the request, which are the links up to `last_reply`."""
        best: ConversationMatch | None = None
        for links in range(len(chain), 0, -1):
            if best is not None and links < last_reply:
                break
            found = self._find_longest(chain, links, preamble_digest, scope)
            if found is None:
                continue
            is_own = is_in_scope(found.tracked.id, scope)
            if is_own and (best is None or found.is_continuation):
                return found
            best = best or found
        return best

    def _find_longest(
        self, chain: Sequence[bytes], links: int, preamble_digest: bytes, scope: str
    ) -> ConversationMatch | None:
        """The best of the conversations that are indexed under the last of these links."""
        found: list[ConversationMatch] = []
        for name in self._by_link.get(chain[links - 1], ()):
            match = _compare(self._conversations[name], chain, links)
            if _may_be(match, len(chain), preamble_digest, scope):
                found.append(match)
        if len(found) <= 1:
            return found[0] if found else None
        return max(found, key=lambda each: self._rank(each, preamble_digest, scope))

    def find_respelled(self, request: CallerRequest) -> ConversationMatch | None:
        """The conversation that the request continues without a part of what was sent last. None if several
        conversations sent different things there: it cannot be told whose it is."""
        found = [
            (each, covered)
            for each in self._conversations.values()
            if is_in_scope(each.id, request.scope) and (covered := each.respelled_links(request)) is not None
        ]
        if not found or len({each.known.sent_last() for each, _ in found}) > 1:
            return None
        tracked, covered = found[-1]
        return ConversationMatch(tracked, len(tracked.known.chain), covered, is_continuation=True)

    def find_summarized(
        self, request: CallerRequest, covered: int, *, rewrites: bool
    ) -> ConversationMatch | None:
        """The conversation that has most of the request, and more than `covered` links, if the request lacks
        a part of what is summarized there. `rewrites`: or has a message of it that was written anew."""
        best: ConversationMatch | None = None
        for each in reversed(self._conversations.values()):
            is_own = is_in_scope(each.id, request.scope)
            found = each.align_summarized(request, rewrites=rewrites) if is_own else None
            if found is None:
                continue
            if found.spelling.links > (best.covered if best else covered):
                links, is_all = each.known.links_before(found.cut), found.is_whole(each.records)
                best = ConversationMatch(each, links, found.spelling.links, is_all, found)
            if best is not None and best.covered >= request.last_reply:
                # None has more of it. A caller that rewrites messages leaves many conversations behind.
                break
        return best

    def find_reply(self, message_id: str) -> ConversationMatch | None:
        """The conversation with this reply, up to and including the reply."""
        tracked = self._conversations.get(self._by_reply.get(message_id, ""))
        if tracked is None:
            return None
        links = tracked.known.replies[message_id]
        return ConversationMatch(tracked, links, links, links == len(tracked.known.chain))

    def get(self, name: str) -> TrackedConversation | None:
        return self._conversations.get(name)

    def remember(self, tracked: TrackedConversation) -> None:
        """Index the new links of a conversation and make it the most recently used."""
        indexed, chain = self._indexed.setdefault(tracked.id, []), tracked.known.chain
        # Equal last links of equally long chains mean that nothing is new: asked several times per request.
        if len(indexed) != len(chain) or indexed[-1:] != chain[-1:]:
            self._index(tracked.id, indexed, chain)
        for each in reversed(tracked.known.replies):
            # Earlier replies are indexed already. A fork takes over the replies that it shares.
            if self._by_reply.get(each) == tracked.id:
                break
            self._by_reply[each] = tracked.id
        self._conversations[tracked.id] = tracked
        self._conversations.move_to_end(tracked.id)

    def _index(self, name: str, indexed: list[bytes], chain: Sequence[bytes]) -> None:
        # Equal links mean equal beginnings: nearly always the last link is where it was.
        same = len(indexed)
        if same > len(chain) or indexed[-1:] != chain[same - 1 : same]:
            same = common_prefix_length(indexed, chain)
            self._remove_links(name, indexed[same:])
        added = chain[same:]
        if added or same < len(indexed):
            indexed[same:] = added
        for each in added:
            self._by_link.setdefault(each, set()).add(name)

    def forget(self, tracked: TrackedConversation) -> None:
        if self._conversations.get(tracked.id) is not tracked:
            # It was read again since.
            return
        del self._conversations[tracked.id]
        self._remove_links(tracked.id, self._indexed.pop(tracked.id, ()))
        for each in tracked.known.replies:
            if self._by_reply.get(each) == tracked.id:
                del self._by_reply[each]

    def _remove_links(self, name: str, links: Iterable[bytes]) -> None:
        for each in links:
            holders = self._by_link[each]
            holders.discard(name)
            if not holders:
                del self._by_link[each]

    def oldest_beyond(self, limit: int) -> TrackedConversation | None:
        """The least recently used conversation, if there are more than `limit`. One that waits for a response
        is skipped, unless too many do: an abandoned request never gets a response."""
        if len(self._conversations) <= limit:
            return None
        # Whoever records a response is not counted as a user, but holds the lock.
        known = self._conversations.values()
        free = [tracked for tracked in known if not tracked.users and not tracked.lock.is_held]
        idle = [tracked for tracked in free if not tracked.is_awaiting_reply]
        return next(iter(idle if len(self._conversations) <= limit * MAX_PENDING_FACTOR else free), None)

    def _rank(
        self, found: ConversationMatch, preamble_digest: bytes, scope: str
    ) -> tuple[bool, bool, int, bool, int]:
        """For equal prefixes: prefer the same scope, then the same preamble, then one that has more of the
        request by now, then a continuation, then the most recently used."""
        tracked, age = found.tracked, list(self._conversations).index(found.tracked.id)
        is_same = tracked.preamble_digest == preamble_digest
        return is_in_scope(tracked.id, scope), is_same, found.links, found.is_continuation, age


def _compare(tracked: TrackedConversation, chain: Sequence[bytes], links: int) -> ConversationMatch:
    """What a conversation that is indexed under `links` links has of a chain. What a request adds is indexed
    when it is prepared, so the conversation may have more."""
    known = tracked.known.chain
    if len(known) == links:
        return ConversationMatch(tracked, links, links, is_continuation=True)
    # A copy: another thread may change it.
    known = known[:]
    same = common_prefix_length(known, chain)
    return ConversationMatch(tracked, same, same, same == len(known))


def _may_be(found: ConversationMatch, asked: int, preamble_digest: bytes, scope: str) -> bool:
    """`asked` is the number of links of the request."""
    tracked, known = found.tracked, found.tracked.known
    if known.has_reply_within(found.links):
        return True
    is_same = tracked.preamble_digest == preamble_digest and is_in_scope(tracked.id, scope)
    is_rewritten = found.links < asked and known.has_rewritten_reply(found.links)
    return is_same and found.links > 0 and (found.is_continuation or is_rewritten)
