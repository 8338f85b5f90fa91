"""Session state that the records do not hold: cache break baselines, compaction breakers, and the cost of
calls for summaries and notes.

A store keeps it as one small value and replaces it as a whole. It may be missing or damaged: then the first
call has no baseline to compare with (CB-7), the breakers are closed, and those costs start at zero.
"""

import msgspec

from everturn.decide.cache_breaks import Baseline
from everturn.decide.compact.breakers import CompactionBreaker, RefillBreaker
from everturn.decide.economy.decisions import EconomicDecision
from everturn.decide.economy.head import HeadTool
from everturn.decide.economy.state import EconomyState
from everturn.session.bill import BillPurpose, UsageTotals
from everturn.session.store.protocol import Store


class SettledList(msgspec.Struct, frozen=True, omit_defaults=True):
    """The part of a caller's list that had come back as it is kept: its number of links, and the last link
    in hexadecimal. A part of a later message may still be left out; of these none."""

    links: int = 0
    link: str = ""


class SessionState(msgspec.Struct, frozen=True, omit_defaults=True):
    baselines: dict[str, Baseline] = {}
    asides: dict[BillPurpose, UsageTotals] = {}
    breaker: CompactionBreaker = CompactionBreaker()
    refill: RefillBreaker = RefillBreaker()
    settled: SettledList = SettledList()
    # What carrying and doing nothing would have cost so far (EC-5, EC-8).
    economy: EconomyState = EconomyState()
    # The latest decisions by price (EC-1), and why holds of an hour are not used, by model (EC-3).
    decisions: tuple[EconomicDecision, ...] = ()
    lost_holds: dict[str, str] = {}
    # What the definition of each tool costs; and which tools are deferred, decided once (EC-10): None while
    # nothing is decided.
    head: tuple[HeadTool, ...] = ()
    deferred_tools: tuple[str, ...] | None = None
    # The blob with the system prompt and tools of a thread, whose later requests do not repeat them.
    preamble: str = ""


def read_state(store: Store) -> SessionState:
    return decode_state(store.read_state())


def decode_state(data: bytes) -> SessionState:
    try:
        return msgspec.json.decode(data, type=SessionState)
    except (ValueError, RecursionError, msgspec.MsgspecError):
        return SessionState()


def write_state(store: Store, state: SessionState) -> str:
    """Returns why it could not be written, or ""."""
    return store.write_state(msgspec.json.encode(state))
