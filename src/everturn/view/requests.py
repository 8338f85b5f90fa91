"""The request as it is sent: what was captured, its markers, and what a fork adds (PC-12, PC-13).

Where breakpoints go is decided in `breakpoints.py`; here they are written. Everything else leaves as it came.
"""

from collections.abc import Sequence

import msgspec

from everturn.history.messages import Message
from everturn.measure.capabilities import Capabilities
from everturn.measure.prefix_cache import Breakpoint, Ttl
from everturn.view.breakpoints import Breakpoints, scope_at, with_cache_control
from everturn.view.forks import CapturedRequest, Fork
from everturn.view.key_parameters import to_request_fields
from everturn.wire.anthropic import Request

# A fork is over before an hour could pay off (PC-9). The lifetime is no part of the key: it reads its
# parent's entries all the same, and a read renews them for their own lifetime (api-facts 1.3).
FORK_TTL: Ttl = "5m"


def build_request(safe: CapturedRequest, marks: Breakpoints, more: Sequence[Message] = ()) -> Request:
    """The request with its markers; `more` are messages behind those that were captured."""
    tools, system = list(safe.head.tools), list(safe.head.system)
    messages = [*safe.messages, *more]
    for spot, marker in marks.places:
        scope = scope_at(safe.head, spot)
        if spot.message >= 0:
            message = messages[spot.message]
            blocks = list(message.blocks)
            blocks[spot.block] = with_cache_control(blocks[spot.block], marker.ttl)
            messages[spot.message] = Message(message.role, tuple(blocks))
        elif spot.block < len(tools):
            tools[spot.block] = with_cache_control(tools[spot.block], marker.ttl)
        else:
            at = spot.block - len(tools)
            system[at] = with_cache_control(system[at], marker.ttl, scope)
    return Request(
        model=safe.model,
        messages=tuple(messages),
        tools=tuple(tools),
        system=tuple(system),
        settings={**safe.settings, **to_request_fields(safe.parameters)},
    )


def build_fork_request(fork: Fork, capabilities: Capabilities) -> Request:
    """A fork's request. Its markers are its parent's, each in its place: it can only find what is there,
    and however much it says itself, none of that is written (PC-13)."""
    safe = msgspec.structs.replace(fork.parent, settings=fork.settings)
    return build_request(safe, place_fork_breakpoints(fork, capabilities), fork.messages)


def place_fork_breakpoints(fork: Fork, capabilities: Capabilities) -> Breakpoints:
    if not capabilities.caching:
        return Breakpoints(why=("the provider has no prompt cache",))
    places = tuple((spot, Breakpoint(-1, FORK_TTL)) for spot, _ in fork.parent.breakpoints.places)
    return Breakpoints(places, fork.parent.breakpoints.why, fork.parent.breakpoints.reached)
