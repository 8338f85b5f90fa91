"""Sessions that never happened, made from a seed in the format of Claude Code.

`story.py` says what `tokens` means and which module decides what.
"""

from everturn.replay.made_up.story import Shape, made_up_session

__all__ = ["Shape", "made_up_session"]
