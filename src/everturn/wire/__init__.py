"""Formats: Claude Code's JSONL, Anthropic requests and replies, provider errors."""
