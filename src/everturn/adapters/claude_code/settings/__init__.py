"""Edits Claude Code's settings file: adds everturn's entries and removes them again."""
