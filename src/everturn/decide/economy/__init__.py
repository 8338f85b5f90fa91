"""The policy `economic`: what an action costs now against what it is expected to save (chapter EC)."""
