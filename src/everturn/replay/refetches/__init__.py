"""What a recorded assistant used from earlier in the context, and what a policy would have hidden (RP-6,
RP-14).
"""

from everturn.replay.refetches.index import CallUses, SessionUses, ThreadUses, index_session, index_threads
from everturn.replay.refetches.strings import UseKind
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
