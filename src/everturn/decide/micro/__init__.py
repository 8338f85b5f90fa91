"""Micro-compaction: one file per kind, each from a situation to a plan; their order is `order.py`."""

from everturn.decide.micro.context import MicroContext, MicroPlan, OffloadPlan, no_change
from everturn.decide.micro.order import plan_micro_compaction

__all__ = ["MicroContext", "MicroPlan", "OffloadPlan", "no_change", "plan_micro_compaction"]
