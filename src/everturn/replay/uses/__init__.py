"""What a recorded assistant used of what it had seen, and what of it a policy would have hidden (RP-6)."""

from everturn.replay.uses.index import SessionUses, index_session, index_threads
from everturn.replay.uses.strings import Kind
from everturn.replay.uses.thread import CallUses, ThreadUses
from everturn.replay.uses.visibility import Fault, Visibility

__all__ = [
    "CallUses",
    "Fault",
    "Kind",
    "SessionUses",
    "ThreadUses",
    "Visibility",
    "index_session",
    "index_threads",
]
