"""What a restart would lose and the transcript does not hold: baselines of the break detector, breakers of
the compaction, and the price of calls that are no part of the conversation.

It stands in a small file beside the transcript, replaced as a whole. Nothing depends on it being there: one
that is missing or damaged means that the first call is compared with nothing (CB-7), and that breakers are
closed.
"""

from typing import Final

import msgspec

from everturn.decide.cache_breaks import Baseline
from everturn.decide.compact.breakers import Breaker, Refill
from everturn.session.private_files import replace_file
from everturn.session.talk.spending import For, Spent

SUFFIX: Final = ".state.json"


class State(msgspec.Struct, frozen=True, omit_defaults=True):
    baselines: dict[str, Baseline] = {}
    asides: dict[For, Spent] = {}
    breaker: Breaker = Breaker()
    refill: Refill = Refill()


def read_state(transcript: str) -> State:
    try:
        with open(transcript + SUFFIX, "rb") as file:
            return msgspec.json.decode(file.read(), type=State)
    except (OSError, ValueError, RecursionError, msgspec.MsgspecError):
        return State()


def write_state(transcript: str, state: State) -> str:
    """Replace the file; why it could not be, or nothing."""
    return replace_file(transcript + SUFFIX, msgspec.json.encode(state))
