"""Hooks: user code that runs at defined events. A failing hook does not fail the session."""
