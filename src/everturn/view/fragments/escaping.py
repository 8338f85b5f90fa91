"""Text from other sources inside one of our wrappers: nothing in it may close the wrapper (CP-33)."""

import re

SUMMARY_TAG = "session-summary"
_TAGS = re.compile(rf"<(?=\s*/?\s*(?:system-reminder|{SUMMARY_TAG})\b)", re.IGNORECASE)


def escaped(text: str) -> str:
    """The same text; only the opening bracket of tags that we use is escaped."""
    return _TAGS.sub("&lt;", text)
