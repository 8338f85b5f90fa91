"""Every number of the summary without a model (BY-5); sizes are in characters unless they say tokens.

The shares are what a section may use before the rest is distributed; what one does not need goes to the
others in the order of `writing/fitting.py`. They are judgements, checked against recorded sessions with
`python -m everturn.replay.retention_table`.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

import msgspec

CompactionForm = Literal["full", "from", "up_to"]

# The section with the user's messages.
USER_MESSAGES: Final = 6
# By section number. The user's words and the current work come first (CP-4 asks for all of the former).
_SHARES: Final[Mapping[int, float]] = MappingProxyType(
    {6: 0.32, 8: 0.16, 1: 0.13, 7: 0.08, 4: 0.07, 5: 0.09, 3: 0.11, 9: 0.03, 2: 0.01}
)


class SummarySettings(msgspec.Struct, frozen=True, kw_only=True):
    """`budget` is in tokens of the rough estimator (TOK-1)."""

    budget: int = 8_000
    # The order of this mapping is the order of priority.
    shares: Mapping[int, float] = _SHARES
    # The share of the user's messages in a shorter summary: details of the work can be looked up again, what
    # the user said cannot. With 0.32 the summaries of a replay lost a fifth of it, with 0.7 a fifteenth.
    short_messages: float = 0.7
    # User messages longer than a limit are shortened to it, oldest first; the next limit
    # only if that is not enough.
    rungs: tuple[int, ...] = (4_000, 2_000, 1_000, 500, 250, 120, 60)
    # The first and the latest request are quoted again before everything else, up to this length.
    request: int = 600
    sentence: int = 300
    files: int = 40
    snippet_lines: int = 12
    snippet: int = 600
    failures: int = 30
    corrections: int = 20
    conclusions: int = 12
    # Reports of the model at the end of its turns, and of agents; the newest ones are longer.
    reports: int = 24
    report: int = 500
    new_report: int = 1_200
    new_reports: int = 3
    concepts: int = 24
    calls: int = 8
    # Statements of the model since the user's last message, besides its last words.
    findings: int = 8
    commits: int = 8
    statement: int = 1_600

    def shortened_to(self, budget: int) -> "SummarySettings":
        """For a smaller budget, in tokens: the user's messages come before details of the work."""
        usual = self.shares[USER_MESSAGES]
        rest = (1 - self.short_messages) / (1 - usual)
        shares = {
            number: self.short_messages if number == USER_MESSAGES else share * rest
            for number, share in self.shares.items()
        }
        return msgspec.structs.replace(self, budget=budget, shares=shares)
