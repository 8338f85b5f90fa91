"""WHAT HAPPENED? The values of the append-only log."""
