"""One turn from start to end (OV-1). Nothing here reads a clock, a file or the network.

    add         append a record to the log and update everything that tracks the log
    turn        1 micro-compaction   remove stale content, in one rewrite          decide/micro
                2 compaction         summarize what no longer fits                 decide/compact
                3 flatten            the view as messages                          view/flatten
                4 breakpoints        where cached prefixes may end                 view/breakpoints
                5 prediction         what will be read, written, paid in full      measure/prediction
                6 snapshot           the cache key, compared with the last call    decide/cache_breaks
    overflowed    the provider says that the request did not fit: compact once, then call turn again
    record_reply  compare the usage of the answer with the prediction and detect cache breaks

A turn costs only what is new in it. It is a generator because it needs I/O: it yields effects
(`decide/effects.py`) and is sent their results; a driver performs them. A request counts as sent once it was
answered: a turn that is prepared again, after an error, gives the same request.
"""

from everturn.decide.effects import Flow
from everturn.engine.conversation import Conversation
from everturn.engine.values import CompactionOutcome, ConversationSettings, NewId, ReplyAssessment, Turn

__all__ = [
    "CompactionOutcome",
    "Conversation",
    "ConversationSettings",
    "Flow",
    "NewId",
    "ReplyAssessment",
    "Turn",
]
