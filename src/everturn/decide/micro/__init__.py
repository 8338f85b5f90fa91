"""Micro-compaction: one file per kind, each from a situation to a plan; their order is `order.py`."""

from everturn.decide.micro.order import micro
from everturn.decide.micro.situation import MicroPlan, OffloadPlan, Situation, nothing

__all__ = ["MicroPlan", "OffloadPlan", "Situation", "micro", "nothing"]
