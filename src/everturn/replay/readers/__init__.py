"""Recorded sessions in the spellings of many agents, read into records: one file per format (RP-1).

A reader says whether a file is of its format, by content, and gives the conversations in it. Opening files,
choosing the reader and putting sub-agents beside their session: `replay/sessions.py`.
"""
