"""Text without what looks like a secret: for everything that leaves the process beside the conversation.

Each pattern begins with fixed letters and is bounded, so the cost is that of the text, whatever it holds.
"""

import re
from typing import Final

REDACTED: Final = "[redacted]"
# Longer texts are cut before any pattern looks at them.
MAX_CHARACTERS: Final = 4_000
_SECRETS: Final = re.compile(
    r"sk-[A-Za-z0-9_-]{8,512}"
    r"|(?:gh[pousr]|github_pat|glpat|xox[abpors])[_-][A-Za-z0-9_-]{10,512}"
    r"|AKIA[A-Z0-9]{12,64}"
    r"|AIza[A-Za-z0-9_-]{20,128}"
    r"|eyJ[A-Za-z0-9_-]{8,1024}\.[A-Za-z0-9_.-]{8,1024}"
    r"|(?i:bearer|basic)\s{1,4}[A-Za-z0-9+/=._-]{8,1024}"
    r"|(?i:(?:api[_-]?key|token|secret|password|passwd)[\"']{0,1}\s{0,4}[:=]\s{0,4}[\"']{0,1})[^\s\"',;]{4,512}"
    r"|-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----"
    r"|(?<=://)[^\s/@:]{1,128}:[^\s/@]{1,256}(?=@)"
)


def redact_secrets(text: str) -> str:
    return _SECRETS.sub(REDACTED, text[:MAX_CHARACTERS])
