"""Micro-compaction: one file per kind, each from a situation to a plan; their order is `order.py`."""
