"""Text from other sources inside one of our wrappers: nothing in it may close the wrapper (CP-33)."""

import re

SUMMARY_TAG = "session-summary"
OUTPUT_TAG = "tool-output"
_TAGS = re.compile(rf"<(?=\s*/?\s*(?:system-reminder|{SUMMARY_TAG}|{OUTPUT_TAG})\b)", re.IGNORECASE)
_OUTER_TAGS = re.compile(rf"<(?=\s*/?\s*(?:system-reminder|{SUMMARY_TAG})\b)", re.IGNORECASE)


def escaped(text: str) -> str:
    """The same text; only the opening bracket of tags that we use is escaped."""
    return _TAGS.sub("&lt;", text)


def escaped_around_output(text: str) -> str:
    """For a text that may hold tool output in its own mark: that mark stays one, and closes nothing else."""
    return _OUTER_TAGS.sub("&lt;", text)
