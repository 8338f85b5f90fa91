"""WHAT IF? Readers of recorded sessions, calls, faults, policies side by side, reports."""
