"""A PROVIDER IN A BOX. The Messages API: cache, bill, edits, validation, scripts, faults, server."""
