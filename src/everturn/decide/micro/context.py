"""What a micro-compaction decides from, and the plan it returns; the same for every kind."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Literal

import msgspec

from everturn.decide.micro.cache_edit_state import CacheEditState
from everturn.decide.options import Options
from everturn.decide.result_tracker import ResultTracker
from everturn.decide.settings import MicroStepName
from everturn.history.edits import Edit, Offloaded
from everturn.history.records import Record
from everturn.measure.capabilities import PLAIN, Capabilities
from everturn.measure.tokens import TokenCounter

PlanKind = Literal[MicroStepName, "none", "waits"]
DetectorNotice = Literal["nothing", "deleted"]


class MicroContext(msgspec.Struct, frozen=True, kw_only=True):
    """One turn, before its request is built."""

    results: ResultTracker
    options: Options
    # Who asks; analysis calls name no source.
    source: str
    now: datetime
    # When the last assistant record was written; None where no such time can be read.
    last_reply: datetime | None
    # Canonical tokens of the context (`measure/meter.py`).
    size: int = 0
    capabilities: Capabilities = PLAIN
    in_tool_loop: bool = False
    binds_thinking: bool = False
    # Tokens of the thinking recorded from that record on: what an edit before it would lose (PC-16).
    thinking_tokens_after: Callable[[str], int] | None = None
    cached: CacheEditState = CacheEditState()
    # The view and its counts; only the sliding window looks at them.
    records: Sequence[Record] = ()
    counts: TokenCounter | None = None

    @property
    def is_main(self) -> bool:
        prefix = self.options.micro.main
        return bool(prefix) and self.source.startswith(prefix)


class OffloadPlan(msgspec.Struct, frozen=True):
    """A file to be written before its edit is appended; the result stays as it is if that fails."""

    call: str
    name: str
    content: str
    preview: str
    characters: int
    why: str = ""

    def written_to(self, path: str) -> Offloaded:
        """The edit, once the content lies there."""
        return Offloaded(self.call, path, self.preview, self.characters, self.why)


class MicroPlan(msgspec.Struct, frozen=True):
    """What to change now, and why; or why nothing. Nothing has happened until the edits are appended."""

    kind: PlanKind
    edits: tuple[Edit, ...] = ()
    why: str = ""
    tokens_saved: int = 0
    # References to delete in the provider's cache (`cache_edit_state.py` turns them into an edit).
    delete: tuple[str, ...] = ()
    offload: tuple[OffloadPlan, ...] = ()
    # Files whose read the model can no longer see: whoever answers repeated reads with a note that nothing
    # has changed must forget these, so that the next read is a real one (MC-4).
    forgotten: tuple[str, ...] = ()
    detector_notice: DetectorNotice = "nothing"
    resets_cached: bool = False


def no_change(why: str) -> MicroPlan:
    return MicroPlan("none", why=why)


def several(count: int, thing: str) -> str:
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"
