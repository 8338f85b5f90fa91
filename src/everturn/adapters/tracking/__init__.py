"""Tracked conversations: the part that all adapters share. They recognise a caller's requests."""

from everturn.adapters.tracking.caller_request import BreakpointOwner, CallerRequest, UnsupportedRequest
from everturn.adapters.tracking.conversation import PreparedCall, TrackedConversation
from everturn.adapters.tracking.conversations import TrackedConversations
from everturn.adapters.tracking.effect_handler import AsyncSend
from everturn.adapters.tracking.overview import ConversationOverview
from everturn.adapters.tracking.parts import ADAPTER_CAPABILITIES, TrackerParts, make_parts
from everturn.adapters.tracking.tracker import ConversationTracker
from everturn.decide.events import PassedThrough

__all__ = [
    "ADAPTER_CAPABILITIES",
    "AsyncSend",
    "BreakpointOwner",
    "CallerRequest",
    "ConversationOverview",
    "ConversationTracker",
    "PassedThrough",
    "PreparedCall",
    "TrackedConversation",
    "TrackedConversations",
    "TrackerParts",
    "UnsupportedRequest",
    "make_parts",
]
