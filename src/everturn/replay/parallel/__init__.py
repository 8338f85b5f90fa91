"""Many sessions under many policies, on all cores, with results cached on disk (RP-10)."""

from everturn.replay.parallel.engines import Engine
from everturn.replay.parallel.replays import (
    ReplayedSession,
    ReplayOutcome,
    load_calls,
    load_comparisons,
    replay_all,
)
from everturn.replay.parallel.result_cache import ResultCache, default_folder

__all__ = [
    "Engine",
    "ReplayOutcome",
    "ReplayedSession",
    "ResultCache",
    "default_folder",
    "load_calls",
    "load_comparisons",
    "replay_all",
]
