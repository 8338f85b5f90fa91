"""Scopes: callers that name their sessions keep their conversations apart.

A client that sends a session id and an agent id with its requests says whose conversation it is. Two of its
sub-agents may send the same bytes and stay two conversations. Content decides what is known: known history
under a new session id is a fork. The scope is a part of the conversation's id, and so of the name of its
transcript, because it has to be known after a restart.
"""

import hashlib
import re
from typing import Final

# 64 bits: scopes of one user are compared, and a random collision is not a concern.
_BYTES: Final = 8
_SCOPE: Final = re.compile(r"-s([0-9a-f]{16})$")


def make_scope(*names: str) -> str:
    """The scope that these names stand for; "" if all of them are empty."""
    if not any(names):
        return ""
    joined = "\0".join(names).encode(errors="surrogateescape")
    return hashlib.blake2b(joined, digest_size=_BYTES).hexdigest()


def name_conversation(id: str, scope: str) -> str:
    """The id of a conversation in a scope."""
    return f"{id}-s{scope}" if scope else id


def is_in_scope(name: str, scope: str) -> bool:
    found = _SCOPE.search(name)
    return (found[1] if found else "") == scope
