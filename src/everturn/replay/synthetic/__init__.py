"""Sessions that never happened, made from a seed in the format of Claude Code.

`generator.py` says what `tokens` means and which module decides what.
"""

from everturn.replay.synthetic.generator import SessionShape, generate_session

__all__ = ["SessionShape", "generate_session"]
