"""The latest decisions that were made by price, each with its numbers (EC-1)."""

from datetime import datetime
from typing import Final, Literal

import msgspec

DecisionKind = Literal["hold", "reset", "check", "tools", "price"]
# Our choice: enough for the pauses of a day.
MAX_DECISIONS: Final = 12
# Decided differently only when the numbers change; the newest says all.
_LABELS: Final[dict[tuple[DecisionKind, bool], str]] = {
    ("hold", True): "held",
    ("hold", False): "not held",
    ("reset", True): "reset",
    ("reset", False): "not reset",
    ("check", True): "hold checked",
    ("check", False): "hold lost",
    ("tools", True): "tools deferred",
    ("tools", False): "tools not deferred",
    ("price", False): "no price is known",
}


class EconomicDecision(msgspec.Struct, frozen=True, kw_only=True):
    """What was decided, and `why` with its terms. `cost` and `expected` are dollars: the price of the action
    and what it is compared with."""

    at: datetime
    kind: DecisionKind
    # Whether it was done; a decision against something counts too.
    done: bool
    why: str
    cost: float = 0.0
    expected: float = 0.0

    @property
    def label(self) -> str:
        return _LABELS[self.kind, self.done]

    @property
    def sentence(self) -> str:
        """One line: what was decided, and why."""
        is_named = self.label in self.why.partition(":")[0]
        return self.why if is_named else f"{self.label}: {self.why}"


def add_decision(known: tuple[EconomicDecision, ...], new: EconomicDecision) -> tuple[EconomicDecision, ...]:
    """With the new one last. A decision against something is weighed again with every call: only the newest
    of its kind is kept."""
    if not new.done:
        known = tuple(each for each in known if each.done or each.kind != new.kind)
    return (*known, new)[-MAX_DECISIONS:]
