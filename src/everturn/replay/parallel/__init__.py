"""Many sessions under many schemes, on all cores; what was computed once is kept (RP-10)."""

from everturn.replay.parallel.engines import ENGINES, Engine
from everturn.replay.parallel.keep import Keep, default_folder
from everturn.replay.parallel.replays import Outcome, Replayed, chapters, replay_all, whole

__all__ = [
    "ENGINES",
    "Engine",
    "Keep",
    "Outcome",
    "Replayed",
    "chapters",
    "default_folder",
    "replay_all",
    "whole",
]
