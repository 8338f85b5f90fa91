"""Synthetic sessions, generated from a seed in the format of Claude Code.

`generator.py` explains what `tokens` means and which module decides what.
"""

from everturn.replay.synthetic.generator import SessionShape, generate_session

__all__ = ["SessionShape", "generate_session"]
