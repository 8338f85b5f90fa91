"""A client with the middleware, and a look at what leaves it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anthropic
import pytest

import everturn
from everturn.adapters.tracking import PassedThrough
from everturn.twin.testing import TwinForTests

HAIKU = "claude-haiku-4-5"


class Wire(anthropic.Middleware):
    """Stands behind ours and writes down every body that passes."""

    def __init__(self) -> None:
        self.bodies: list[Any] = []

    def handle(self, request: Any, call_next: Any) -> Any:
        self.bodies.append(json.loads(json.dumps(request.json)))
        return call_next(request)

    async def handle_async(self, request: Any, call_next: Any) -> Any:
        self.bodies.append(json.loads(json.dumps(request.json)))
        return await call_next(request)


class Bench:
    """A twin, a middleware, and clients of both kinds."""

    def __init__(self, twin: TwinForTests, folder: Path | None, **options: Any) -> None:
        self.twin = twin
        self.folder = folder
        self.options = options
        self.events: list[Any] = []
        self.wire = Wire()
        self.open()

    def open(self) -> None:
        """As a process starts: nothing in memory."""
        clock = self.twin.twin.clock.now
        options = {"listen": self.events.append, "clock": clock, **self.options}
        self.middleware = everturn.middleware(folder=self.folder, **options)
        chain = [self.middleware, self.wire]
        self.client = self.twin.client(middleware=chain, max_retries=2)
        self.async_client = self.twin.async_client(middleware=chain, max_retries=2)
        # Retries without waiting.
        self.client._sleep_for_retry = lambda **_: None  # type: ignore[method-assign]

    def restart(self) -> None:
        self.middleware.close()
        self.open()

    def ask(self, messages: list[Any], **more: Any) -> Any:
        request = {"model": HAIKU, "max_tokens": 500, **more}
        return self.client.messages.create(messages=messages, **request)

    def talk(self, messages: list[Any], *words: str, **more: Any) -> list[Any]:
        """The list as the caller has it after these words and their answers."""
        for said in words:
            messages = [*messages, {"role": "user", "content": said}]
            reply = self.ask(messages, **more)
            messages = [*messages, {"role": "assistant", "content": reply.content}]
        return messages

    @property
    def sent(self) -> list[Any]:
        return self.wire.bodies

    @property
    def transcripts(self) -> list[str]:
        assert self.folder is not None
        return sorted(path.name for path in self.folder.glob("*.jsonl"))

    def check(self) -> None:
        """What must hold whatever a test does: the API took every request that nobody broke on purpose, and
        nothing of ours failed."""
        refused = [entry["error"] for entry in self.twin.ledger if entry["status"] == 400]
        assert [each for each in refused if "too long" not in each["message"]] == []
        assert [event for event in self.events if isinstance(event, PassedThrough)] == []


@pytest.fixture
def bench(twin: TwinForTests, tmp_path: Path):
    made = Bench(twin, tmp_path / "sessions")
    yield made
    made.middleware.close()


@pytest.fixture
def benches(twin: TwinForTests, tmp_path: Path):
    """Benches with options."""
    made: list[Bench] = []

    def make(*, folder_name: str = "sessions", **options: Any) -> Bench:
        made.append(Bench(twin, tmp_path / folder_name, **options))
        return made[-1]

    yield make
    for each in made:
        each.middleware.close()


Benches = Callable[..., Bench]
