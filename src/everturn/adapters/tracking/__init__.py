"""A conversation engine beside a caller that knows nothing of it: the part that all adapters share."""

from everturn.adapters.tracking.caller_request import BreakpointOwner, CallerRequest, UnsupportedRequest
from everturn.adapters.tracking.conversation import PreparedCall, TrackedConversation
from everturn.adapters.tracking.effect_handler import AsyncSend
from everturn.adapters.tracking.manner import Manner, default_folder, manner_of
from everturn.adapters.tracking.overview import ConversationOverview, make_overview, recall_conversation
from everturn.adapters.tracking.tracker import ConversationTracker
from everturn.decide.events import PassedThrough

__all__ = [
    "AsyncSend",
    "BreakpointOwner",
    "CallerRequest",
    "ConversationOverview",
    "ConversationTracker",
    "Manner",
    "PassedThrough",
    "PreparedCall",
    "TrackedConversation",
    "UnsupportedRequest",
    "default_folder",
    "make_overview",
    "manner_of",
    "recall_conversation",
]
