"""Decisions about what the model sees next, each a value with its reason."""
