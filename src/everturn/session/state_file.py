"""Session state that the records do not hold: cache break baselines, compaction breakers, and the cost of
calls for summaries and notes.

A store keeps it as one small value and replaces it as a whole. It may be missing or damaged: then the first
call has no baseline to compare with (CB-7), the breakers are closed, and those costs start at zero.
"""

import msgspec

from everturn.decide.cache_breaks import Baseline
from everturn.decide.compact.breakers import CompactionBreaker, RefillBreaker
from everturn.session.bill import BillPurpose, UsageTotals
from everturn.session.store.protocol import Store


class SessionState(msgspec.Struct, frozen=True, omit_defaults=True):
    baselines: dict[str, Baseline] = {}
    asides: dict[BillPurpose, UsageTotals] = {}
    breaker: CompactionBreaker = CompactionBreaker()
    refill: RefillBreaker = RefillBreaker()


def read_state(store: Store) -> SessionState:
    try:
        return msgspec.json.decode(store.read_state(), type=SessionState)
    except (ValueError, RecursionError, msgspec.MsgspecError):
        return SessionState()


def write_state(store: Store, state: SessionState) -> str:
    """Returns why it could not be written, or ""."""
    return store.write_state(msgspec.json.encode(state))
