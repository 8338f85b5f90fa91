"""What the tests of both frameworks share: what leaves an agent, and whether the API took it."""

import json
from pathlib import Path
from typing import Any

import anthropic

from everturn.adapters.tracking import PassedThrough
from everturn.twin.testing import TwinForTests

# How every request for a summary begins its question, whichever part it asks about, or asks for it again.
ASKS_FOR_SUMMARY = ("Write a summary of", "That summary cannot be used")


class Wire(anthropic.Middleware):
    """Writes down every body that passes, and breaks so many compacted ones that the API refuses them."""

    def __init__(self) -> None:
        self.bodies: list[Any] = []
        self.broken = 0

    def handle(self, request: Any, call_next: Any) -> Any:
        return call_next(self._passed(request))

    async def handle_async(self, request: Any, call_next: Any) -> Any:
        return await call_next(self._passed(request))

    def _passed(self, request: Any) -> Any:
        self.bodies.append(json.loads(json.dumps(request.json)))
        if not self.broken or "<session-summary>" not in json.dumps(request.json):
            return request
        self.broken -= 1
        return request.copy(body={**request.json, "temperature": 7})


class FrameworkBench:
    """A twin, the wire to it, and the events of the adapter under test."""

    def __init__(self, twin: TwinForTests, folder: Path) -> None:
        self.twin, self.folder = twin, folder
        self.wire = Wire()
        self.events: list[Any] = []

    def asked(self) -> list[Any]:
        """The bodies of the agent's own requests, without those that ask for a summary."""
        return [body for body in self.wire.bodies if not asks_for_summary(body)]

    def check(self, *, refusals: int = 0) -> None:
        """The API took every request that nobody broke on purpose, and nothing of ours failed."""
        assert [entry["status"] for entry in self.twin.ledger if entry["status"] != 200] == [400] * refusals
        assert [event for event in self.events if isinstance(event, PassedThrough)] == []


def asks_for_summary(body: Any) -> bool:
    newest = json.dumps(body["messages"][-1])
    return any(words in newest for words in ASKS_FOR_SUMMARY)
