"""Sessions: all input and output around the pure core (files, provider calls, hooks, events)."""
