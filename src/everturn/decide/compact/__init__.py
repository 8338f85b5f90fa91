"""Compaction: planned as a value, carried out as a flow of effects, finished as records to append."""
