"""What a restart would lose and the transcript does not hold: baselines of the break detector, breakers of
the compaction, and the price of calls that are no part of the conversation.

It stands in a small file beside the transcript, replaced as a whole. Nothing depends on it being there: one
that is missing or damaged means that the first call is compared with nothing (CB-7), and that breakers are
closed.
"""

from typing import Final

import msgspec

from everturn.decide.cache_breaks import Baseline
from everturn.decide.compact.breakers import CompactionBreaker, RefillBreaker
from everturn.session.bill import BillPurpose, UsageTotals
from everturn.session.private_files import replace_file

SUFFIX: Final = ".state.json"


class SessionState(msgspec.Struct, frozen=True, omit_defaults=True):
    baselines: dict[str, Baseline] = {}
    asides: dict[BillPurpose, UsageTotals] = {}
    breaker: CompactionBreaker = CompactionBreaker()
    refill: RefillBreaker = RefillBreaker()


def read_state(transcript: str) -> SessionState:
    try:
        with open(transcript + SUFFIX, "rb") as file:
            return msgspec.json.decode(file.read(), type=SessionState)
    except (OSError, ValueError, RecursionError, msgspec.MsgspecError):
        return SessionState()


def write_state(transcript: str, state: SessionState) -> str:
    """Replace the file; why it could not be, or nothing."""
    return replace_file(transcript + SUFFIX, msgspec.json.encode(state))
