"""A conversation engine beside a caller that knows nothing of it: the part that all adapters share."""

from everturn.adapters.shadow.caller import CallerRequest, Markers, NotOurs
from everturn.adapters.shadow.manner import Manner, default_folder, manner_of
from everturn.adapters.shadow.overview import Overview, overview, recalled
from everturn.adapters.shadow.shadow import Shadow, Ticket
from everturn.adapters.shadow.shadows import Shadows
from everturn.adapters.shadow.worlds import AsyncSend
from everturn.decide.events import PassedThrough

__all__ = [
    "AsyncSend",
    "CallerRequest",
    "Manner",
    "Markers",
    "NotOurs",
    "Overview",
    "PassedThrough",
    "Shadow",
    "Shadows",
    "Ticket",
    "default_folder",
    "manner_of",
    "overview",
    "recalled",
]
