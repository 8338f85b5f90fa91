"""Text without what looks like a secret: for everything that leaves the process beside the conversation.

Each pattern begins with fixed letters, and where it can fail it is bounded, so the cost is that of the text,
whatever it holds.
"""

import re
from typing import Final

REDACTED: Final = "[redacted]"
# Longer texts are cut before any pattern looks at them.
MAX_CHARACTERS: Final = 4_000
_SECRETS: Final = re.compile(
    r"sk-[A-Za-z0-9_-]{8,}"
    r"|(?:gh[pousr]|github_pat|glpat|xox[abeoprs]|npm|hf|dop_v1|shpat|whsec|(?:sk|rk|pk)_(?:live|test))[_-]"
    r"[A-Za-z0-9_-]{10,}"
    r"|pypi-[A-Za-z0-9_-]{16,}"
    r"|A[KS]IA[A-Z0-9]{12,}"
    r"|AIza[A-Za-z0-9_-]{20,}"
    r"|ya29\.[A-Za-z0-9_-]{16,}"
    r"|eyJ[A-Za-z0-9_-]{8,1024}\.[A-Za-z0-9_.-]{8,}"
    # A key with its body, to its end or to the end of the text.
    r"|-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----(?:[^-]|-(?!----))*+(?:-----END [A-Z ]{0,40}-----)?"
    # A name and a value; the value may follow a scheme: `api-key: Bearer VALUE`.
    r"|(?i:(?:key|token|secret|password|passwd|passphrase|pwd|credentials?|authorization|cookie)"
    r"[\"']{0,2}\s{0,4}(?:[:=]|=>)\s{0,4}[\"']{0,2}(?:(?:bearer|basic|token|digest)\s{1,4})?)[^\s\"',;]{4,}"
    r"|(?i:bearer|basic)\s{1,4}[A-Za-z0-9+/=._~-]{8,}"
    r"|(?i:--[a-z-]{0,20}(?:key|token|secret|password)\s{1,4})[^\s\"',;]{4,}"
    r"|(?<=://)[^\s/@:]{1,128}:[^\s/@]{1,256}(?=@)"
)


def redact_secrets(text: str) -> str:
    return _SECRETS.sub(REDACTED, text[:MAX_CHARACTERS])
