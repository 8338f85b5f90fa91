"""Agents of pydantic-ai on the twin, and a look at what leaves them."""

from pathlib import Path
from typing import Any, Final

import pytest
from adapters.framework_bench import FrameworkBench
from pydantic_ai import Agent
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.providers.anthropic import AnthropicProvider

from everturn.adapters.pydantic_ai import Everturn
from everturn.twin.testing import TwinForTests

HAIKU: Final = "claude-haiku-4-5"
LINES: Final = "\n".join(f"{n:04d} record {n * 7919 % 1000} of the feed was parsed" for n in range(240))


def read_file(path: str) -> str:
    """Reads a file."""
    return f"{path}\n{LINES}"


class Spy(AbstractCapability[Any]):
    """Stands inside ours and keeps what the model is to get, beside the history of the run."""

    def __init__(self) -> None:
        self.seen: list[tuple[list[Any], list[Any]]] = []

    async def prepare_model_request(self, ctx: Any, request_context: Any) -> Any:
        self.seen.append((list(request_context.messages), list(ctx.messages)))
        return request_context


class Bench(FrameworkBench):
    def __init__(self, twin: TwinForTests, folder: Path) -> None:
        super().__init__(twin, folder)
        self.spy = Spy()

    def model(self, name: str = HAIKU, **more: Any) -> AnthropicModel:
        client = self.twin.async_client(middleware=[self.wire], max_retries=0)
        return AnthropicModel(name, provider=AnthropicProvider(anthropic_client=client), **more)

    def capability(self, **options: Any) -> Everturn:
        chosen = {"folder": None, "listen": self.events.append, "clock": self.twin.twin.clock.now, **options}
        return Everturn(**chosen)

    def agent(self, *capabilities: Any, model: Any = None, **more: Any) -> Agent[None, Any]:
        settings = {
            "tools": [read_file],
            "system_prompt": "The parser is called Otto.",
            "instructions": "You maintain a feed parser. " * 40,
            "model_settings": {"max_tokens": 2000},
            **more,
        }
        return Agent(model or self.model(), capabilities=capabilities, **settings)

    async def talk(
        self, agent: Any, tasks: range, messages: list[Any] | None = None, **more: Any
    ) -> list[Any]:
        """The history after these tasks, each in a run of its own."""
        for task in tasks:
            asked = f"Task {task}: look at feed/part_{task}.py and fix it."
            done = await agent.run(asked, message_history=messages, **more)
            messages = done.all_messages()
        return messages or []


@pytest.fixture
def bench(twin: TwinForTests, tmp_path: Path) -> Bench:
    return Bench(twin, tmp_path / "sessions")
