"""Text from elsewhere inside a wrapper of ours: nothing in it may end the wrapper (CP-33)."""

import re

SUMMARY_TAG = "session-summary"
_TAGS = re.compile(rf"<(?=\s*/?\s*(?:system-reminder|{SUMMARY_TAG})\b)", re.IGNORECASE)


def escaped(text: str) -> str:
    """The same words; only the bracket of a tag that means something to us is spelled out."""
    return _TAGS.sub("&lt;", text)
