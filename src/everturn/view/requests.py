"""The request as it is sent: the captured request, its breakpoints, and what a fork adds (PC-12, PC-13).

`breakpoints.py` decides where breakpoints go; here they are written. Everything else is sent as received.
"""

from collections.abc import Sequence
from functools import lru_cache

import msgspec

from everturn.history.blocks import Block
from everturn.history.messages import Message
from everturn.measure.capabilities import Capabilities, Scope
from everturn.measure.prefix_cache import Breakpoint, Ttl
from everturn.view.breakpoints import Breakpoints, scope_at, with_cache_control
from everturn.view.forks import CapturedRequest, Fork
from everturn.view.key_parameters import to_request_fields
from everturn.wire.anthropic import Request

# A fork is over before a lifetime of one hour could pay off (PC-9). The lifetime is not part of the key: it
# still reads its parent's entries, and a read renews them for their own lifetime (api-facts 1.3).
FORK_TTL: Ttl = "5m"


def build_request(safe: CapturedRequest, breakpoints: Breakpoints, more: Sequence[Message] = ()) -> Request:
    """The request with its breakpoints; `more` are messages after the captured ones."""
    tools, system = list(safe.preamble.tools), list(safe.preamble.system)
    messages = [*safe.messages, *more]
    for spot, breakpoint in breakpoints.places:
        scope = scope_at(safe.preamble, spot)
        if spot.message >= 0:
            message = messages[spot.message]
            blocks = list(message.blocks)
            blocks[spot.block] = with_cache_control(blocks[spot.block], breakpoint.ttl)
            messages[spot.message] = Message(message.role, tuple(blocks))
        elif spot.block < len(tools):
            tools[spot.block] = _marked(tools[spot.block], breakpoint.ttl, "org")
        else:
            at = spot.block - len(tools)
            system[at] = _marked(system[at], breakpoint.ttl, scope)
    return Request(
        model=safe.model,
        messages=tuple(messages),
        tools=tuple(tools),
        system=tuple(system),
        settings={**safe.settings, **to_request_fields(safe.parameters)},
    )


# Tools and system prompt are the same for most requests. Our choice of a limit.
@lru_cache(maxsize=64)
def _marked(block: Block, ttl: Ttl, scope: Scope) -> Block:
    return with_cache_control(block, ttl, scope)


def build_fork_request(fork: Fork, capabilities: Capabilities) -> Request:
    """A fork's request. It has its parent's breakpoints, each at the same place: it can only find existing
    entries, and nothing that the fork adds is written (PC-13).
    """
    safe = msgspec.structs.replace(fork.parent, settings=fork.settings)
    return build_request(safe, place_fork_breakpoints(fork, capabilities), fork.messages)


def place_fork_breakpoints(fork: Fork, capabilities: Capabilities) -> Breakpoints:
    if not capabilities.caching:
        return Breakpoints(why=("the provider has no prompt cache",))
    places = tuple((spot, Breakpoint(-1, FORK_TTL)) for spot, _ in fork.parent.breakpoints.places)
    return Breakpoints(places, fork.parent.breakpoints.why, fork.parent.breakpoints.reached)
