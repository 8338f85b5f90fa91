"""Recall: search, open and expand what was cleared or summarized (BY-4)."""
