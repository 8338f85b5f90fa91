"""The append-only log and its values."""
