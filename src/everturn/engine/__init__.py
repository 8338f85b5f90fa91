"""One turn from top to bottom (OV-1). Nothing here reads a clock, a file or a network.

    add         what happened goes into the log, and everything that follows the log follows it
    turn        1 micro-compaction   what is stale leaves, in one rewrite          decide/micro
                2 compaction         what no longer fits is summarized             decide/compact
                3 flatten            the view as messages                          view/flatten
                4 markers            where the provider may cut                    view/markers
                5 prediction         what will be read, written, paid in full      measure/prediction
                6 snapshot           what is in the key, against the last call     decide/cache_breaks
    overflowed  the provider says that it did not fit: compact once, then the turn is asked for again
    replied     the answer's usage settles the prediction and judges the cache

A turn costs what is new in it. It is a generator because it needs the world: it yields effects
(`decide/effects.py`) and is sent their results; whoever drives it performs them. What was sent counts once it
was answered: a turn that is asked for again, after an error, comes out as the first one did.
"""

from everturn.engine.conversation import Conversation
from everturn.engine.values import CompactionOutcome, ConversationSettings, Flow, NewId, ReplyAssessment, Turn

__all__ = [
    "CompactionOutcome",
    "Conversation",
    "ConversationSettings",
    "Flow",
    "NewId",
    "ReplyAssessment",
    "Turn",
]
