"""WHAT IF? Readers of recorded sessions, calls, refetches, comparison of policies, reports."""
