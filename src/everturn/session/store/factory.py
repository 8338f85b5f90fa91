"""The `StoreFactory` protocol: one place that keeps many conversations, of many tenants.

`places.py` chooses a factory by its URL. Tenants never see anything of each other: every operation names its
tenant.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple, Protocol

from everturn.errors import UsageError
from everturn.session.store.protocol import Access, Store

# Names become names of files, too. Long enough for a date, a digest and a uuid.
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@:+=-]{0,199}")


class StoredConversation(NamedTuple):
    """A conversation in a list: its name, the family it was opened with, and when it was written last."""

    name: str
    family: str
    changed_at: datetime


class CounterStep(NamedTuple):
    """Add `amount` to a counter, unless it would then exceed its cap. The name says whose it is: that of a
    session, a tenant or a day."""

    name: str
    amount: int
    cap: int | None = None


class StoreFactory(Protocol):
    # For messages: without user name and password.
    name: str

    def open(self, tenant: str, conversation: str, *, access: Access = "write", family: str = "") -> Store:
        """Open a conversation; with "write" it is created if necessary, and its lease is taken. `family` is
        kept with a new one, to list what belongs together. Raises `SessionLocked` if somebody else writes
        it."""
        ...

    def find_by_message(self, tenant: str, message_id: str) -> str | None:
        """The conversation in which the reply with this id was recorded first."""
        ...

    def conversations(
        self, tenant: str, *, family: str | None = None, most: int | None = None
    ) -> Sequence[StoredConversation]:
        """Conversations with at least one record, those that were written last first. Where families are not
        kept, one belongs to a family if its name has it."""
        ...

    def first_lines(self, tenant: str, most: int) -> Mapping[str, bytes]:
        """The first lines of the conversations that were written last, by their names."""
        ...

    def count(self, tenant: str, steps: Sequence[CounterStep]) -> str:
        """Add to all of these counters or to none. Returns the name of a counter whose cap does not allow
        it; "" if all were added."""
        ...

    def read_counters(self, tenant: str, names: Sequence[str]) -> Mapping[str, int]:
        """The values of these counters; those that were never added to are 0."""
        ...

    def check(self) -> str:
        """Why nothing can be stored now; "" if it can."""
        ...

    def close(self) -> None:
        """Close every store that is still open, which releases its lease."""
        ...


def is_name(text: str) -> bool:
    """Whether this can be the name of a tenant or of a conversation."""
    return _NAME.fullmatch(text) is not None


def check_names(tenant: str, conversation: str = "x") -> None:
    """Raise if these cannot be names of a tenant and of a conversation."""
    for kind, name in (("tenant", tenant), ("conversation", conversation)):
        if not is_name(name):
            raise UsageError(
                f"{name!r} cannot be the name of a {kind}: use at most 200 letters, digits and any of "
                "_.@:+=-, with a letter, a digit or _ first."
            )


def find_exceeded(steps: Sequence[CounterStep], held: Mapping[str, int]) -> str:
    """The first counter whose cap one of the steps would exceed; "" if there is none. Taking something back
    is always allowed."""
    for name, amount, cap in steps:
        if cap is not None and amount > 0 and held.get(name, 0) + amount > cap:
            return name
    return ""


def check_steps(steps: Sequence[CounterStep]) -> None:
    names = [step.name for step in steps]
    if len(set(names)) < len(names):
        raise UsageError("One call of `count` names a counter twice; add up its amounts first.")
