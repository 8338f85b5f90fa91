"""A local, deterministic implementation of the Messages API: cache, billing, edits, validation, faults."""
