"""The request as it is sent: what was captured, its markers, and what a fork adds (PC-12, PC-13).

Where markers stand is `markers.py`'s decision; here they are spelled. What is not marked leaves as it came.
"""

from collections.abc import Sequence

import msgspec

from everturn.history.messages import Message
from everturn.measure.capabilities import Capabilities
from everturn.measure.prefix_cache import Marker, Ttl
from everturn.view.forks import CacheSafe, Fork
from everturn.view.lifetime import spelled
from everturn.view.markers import Marks, scope_at, with_marker
from everturn.wire.anthropic import Request

# A fork is over before an hour could pay off (PC-9). The lifetime is no part of the key: it reads its
# parent's entries all the same, and a read renews them for their own lifetime (api-facts 1.3).
FORK_TTL: Ttl = "5m"


def marked_request(safe: CacheSafe, marks: Marks, more: Sequence[Message] = ()) -> Request:
    """The request with its markers; `more` are messages behind those that were captured."""
    tools, system = list(safe.head.tools), list(safe.head.system)
    messages = [*safe.messages, *more]
    for spot, marker in marks.places:
        scope = scope_at(safe.head, spot)
        if spot.message >= 0:
            message = messages[spot.message]
            blocks = list(message.blocks)
            blocks[spot.block] = with_marker(blocks[spot.block], marker.ttl)
            messages[spot.message] = Message(message.role, tuple(blocks))
        elif spot.block < len(tools):
            tools[spot.block] = with_marker(tools[spot.block], marker.ttl)
        else:
            at = spot.block - len(tools)
            system[at] = with_marker(system[at], marker.ttl, scope)
    return Request(
        model=safe.model,
        messages=tuple(messages),
        tools=tuple(tools),
        system=tuple(system),
        settings={**safe.settings, **spelled(safe.parameters)},
    )


def fork_request(fork: Fork, capabilities: Capabilities) -> Request:
    """A fork's request. Its markers are its parent's, each in its place: it can only find what is there,
    and however much it says itself, none of that is written (PC-13)."""
    safe = msgspec.structs.replace(fork.parent, settings=fork.settings)
    return marked_request(safe, fork_marks(fork, capabilities), fork.messages)


def fork_marks(fork: Fork, capabilities: Capabilities) -> Marks:
    if not capabilities.caching:
        return Marks(why=("the provider has no prompt cache",))
    places = tuple((spot, Marker(-1, FORK_TTL)) for spot, _ in fork.parent.marks.places)
    return Marks(places, fork.parent.marks.why, fork.parent.marks.reached)
