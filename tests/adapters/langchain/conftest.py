"""Agents of LangChain on ChatAnthropic and the twin, and a look at what leaves them."""

from pathlib import Path
from typing import Any, Final

import pytest
from adapters.framework_bench import FrameworkBench
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_anthropic import ChatAnthropic
from langchain_core.tools import tool

from everturn.adapters.langchain import EverturnMiddleware
from everturn.twin.testing import TwinForTests

HAIKU: Final = "claude-haiku-4-5"
SYSTEM: Final = "You maintain a feed parser. " * 40
# About four thousand tokens.
LINES: Final = "\n".join(f"{n:04d} record {n * 7919 % 1000} of the feed was parsed" for n in range(240))


@tool
def read_file(path: str) -> str:
    """Reads a file."""
    return f"{path}\n{LINES}"


class Spy(AgentMiddleware[Any, Any, Any]):
    """Stands inside ours and keeps what the model is to get, and what the state has."""

    def __init__(self) -> None:
        self.requests: list[Any] = []

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        self.requests.append(request)
        return handler(request)


class Bench(FrameworkBench):
    def __init__(self, twin: TwinForTests, folder: Path) -> None:
        super().__init__(twin, folder)
        self.spy = Spy()

    def model(self, name: str = HAIKU, **more: Any) -> ChatAnthropic:
        made = ChatAnthropic(model_name=name, api_key="k", max_retries=0, **{"max_tokens": 2000, **more})  # type: ignore[arg-type]
        # Where it keeps its clients, once they are made.
        made.__dict__["_client"] = self.twin.client(middleware=[self.wire], max_retries=0)
        made.__dict__["_async_client"] = self.twin.async_client(middleware=[self.wire], max_retries=0)
        return made

    def middleware(self, **options: Any) -> EverturnMiddleware:
        chosen = {"folder": None, "listen": self.events.append, "clock": self.twin.twin.clock.now, **options}
        return EverturnMiddleware(**chosen)

    def agent(self, *middleware: Any, model: Any = None, **more: Any) -> Any:
        settings = {"tools": [read_file], "system_prompt": SYSTEM, **more}
        return create_agent(model or self.model(), middleware=middleware, **settings)

    def talk(self, agent: Any, tasks: range, messages: list[Any] | None = None, **config: Any) -> list[Any]:
        """The agent's messages after these tasks, each in a run of its own."""
        for task in tasks:
            asked = ("user", f"Task {task}: look at feed/part_{task}.py and fix it.")
            messages = agent.invoke({"messages": [*(messages or []), asked]}, config)["messages"]
        return messages or []


@pytest.fixture
def bench(twin: TwinForTests, tmp_path: Path) -> Bench:
    return Bench(twin, tmp_path / "sessions")
