"""What a recorded assistant used of what it had seen, and what of it a policy would have hidden (RP-6)."""

from everturn.replay.refetches.index import SessionUses, index_session, index_threads
from everturn.replay.refetches.strings import UseKind
from everturn.replay.refetches.thread import CallUses, ThreadUses
from everturn.replay.refetches.visibility import Refetch, Visibility

__all__ = [
    "CallUses",
    "Refetch",
    "SessionUses",
    "ThreadUses",
    "UseKind",
    "Visibility",
    "index_session",
    "index_threads",
]
