"""Readers for the session files of many agents: one file per format (RP-1).

A reader recognises its format by content and returns the conversations of a file. Opening files, choosing a
reader and attaching sub-agents to their session: `replay/sessions.py`.
"""
