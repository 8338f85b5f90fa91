"""Notices a caller whose lists keep differing from what it sent before: every difference is a fork, which
loses what was decided behind it, and may have to be compacted again."""

from collections import OrderedDict, deque
from threading import Lock
from typing import Any, Final, NamedTuple

from everturn.adapters.tracking.caller_request import CallerRequest

# Forks within the last calls of one caller that are reported (GW-11).
FORKS: Final = 3
CALLS: Final = 10
# Callers that are watched at the same time. Our choice.
MAX_CALLERS: Final = 1_000


class Difference(NamedTuple):
    """Where a list differs from what was known, and how; without its content."""

    where: str
    what: str


class RepeatedForks(NamedTuple):
    forks: int
    calls: int
    text: str


def describe_difference(request: CallerRequest, links: int, known: int) -> Difference:
    """`links` is the number of links that the request shares with a conversation of `known` links."""
    if links >= len(request.chain):
        last = len(request.messages) - 1
        return Difference(f"messages.{last}", "the list ends where an earlier, longer list was answered")
    message, block = request.positions[links - request.known]
    role = request.role(links)
    where = f"messages.{message}.content.{block}"
    if links >= known:
        return Difference(where, f"a {role} message continues a list that has changed since")
    return Difference(where, f"{_describe(role, request.block(links))} differs from what was sent before")


def _describe(role: str, block: Any) -> str:
    if isinstance(block, str):
        return f"the {role} text of {len(block):,} characters"
    kind = block.get("type")
    text = block.get("text")
    size = f" of {len(text):,} characters" if isinstance(text, str) else ""
    return f"the {role} block {kind!r}{size}"


class ForkWatch:
    """Counts forks among the last calls of each caller, by the conversation that its forks come from. Safe to
    use from threads."""

    def __init__(self) -> None:
        self._calls: OrderedDict[str, deque[bool]] = OrderedDict()
        self._guard = Lock()

    def count_call(self, lineage: str) -> None:
        """A call that continued its conversation."""
        with self._guard:
            if lineage in self._calls:
                self._calls[lineage].append(False)

    def count_fork(self, lineage: str, difference: Difference) -> RepeatedForks | None:
        """A call that made a fork. Returns what to report, once for so many forks."""
        with self._guard:
            calls = self._calls.setdefault(lineage, deque(maxlen=CALLS))
            self._calls.move_to_end(lineage)
            if len(self._calls) > MAX_CALLERS:
                self._calls.popitem(last=False)
            calls.append(True)
            forks, made = sum(calls), len(calls)
            if forks < FORKS:
                return None
            calls.clear()
        text = (
            f"{forks} of the last {made} calls of one caller did not continue their conversation, so it was "
            f"forked each time. The last difference is at {difference.where}: {difference.what}. Send "
            "earlier messages unchanged; a fork may have to be compacted again."
        )
        return RepeatedForks(forks, made, text)
