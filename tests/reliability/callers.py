"""Callers by chance: programs that keep their own list of messages, and everturn beside them.

A program has a few lists that begin alike. It goes on with one of them, asks again, goes back, branches off,
leaves out its oldest turns, says its prompt in other words, or ends and starts again; through the middleware
of the SDK, LangChain or pydantic-ai. Each message of the user has a number that is used once. In every
request that leaves, no number is from another list, the newest one is there, and the API takes it.
"""

import asyncio
import json
import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

from adapters.framework_bench import Wire, asks_for_summary
from reliability.scenes import in_memory
from reliability.writers import quiet

import everturn
from everturn.decide.events import PassedThrough
from everturn.decide.options import Options
from everturn.twin.testing import TwinForTests

STEPS = 6
# A window that a few messages fill: compactions happen all the time.
SMALL = Options(window=24_000)
PAD = "and this is why it matters so much. " * 400
MODEL = "claude-haiku-4-5"
NUMBER = re.compile(r"<<\d+>>")
FIRST = "Look at the parser. "
SYSTEMS = ("You maintain a parser.", "You maintain a parser. Be brief.")


class Misheard(AssertionError):
    """A request that is not what its caller asked for, or that the API refuses."""


class Surface(Protocol):
    """One way into everturn. A history is whatever its callers keep."""

    def ask(self, history: Sequence[Any], words: str, system: str) -> list[Any]:
        """The history after the model's answer."""
        ...

    def is_turn(self, message: Any) -> bool:
        """Whether a message of a history begins a turn of the user."""
        ...

    def restart(self) -> None: ...


class Caller:
    """One program, what leaves it, and what it holds."""

    def __init__(self, surface: str, folder: Path, rng: random.Random) -> None:
        self.rng = rng
        self.counts: Counter[str] = Counter({surface: 1})
        self.twin = TwinForTests()
        self.wire = Wire()
        self.events: list[Any] = []
        self.surface = SURFACES[surface](self, folder)
        # Every state that a list of messages had, newest last.
        self.lists: list[list[list[Any]]] = [[[]], [[]]]
        self.system = SYSTEMS[0]
        self.number = 0

    def words(self) -> str:
        self.number += 1
        return f"{FIRST}<<{self.number}>> {PAD}"

    def act(self) -> None:
        states = self.rng.choice(self.lists)
        history, habit = states[-1], self.rng.choice(HABITS)
        if habit == "again" and len(states) > 1:
            history = states[-2]
        elif habit == "rewind":
            history = self.rng.choice(states)
        elif habit == "branch":
            states = [history]
            self.lists.append(states)
        elif habit == "trim":
            starts = [at for at, each in enumerate(history) if self.surface.is_turn(each)]
            history = history[self.rng.choice(starts or [0]) :]
        elif habit == "other system":
            self.system = self.rng.choice(SYSTEMS)
        elif habit == "restart":
            self.surface.restart()
        self.counts[habit] += 1
        states.append(self.ask(history))

    def ask(self, history: list[Any]) -> list[Any]:
        words, start = self.words(), len(self.wire.bodies)
        after = self.surface.ask(history, words, self.system)
        allowed = {*NUMBER.findall(repr(history)), f"<<{self.number}>>"}
        for body in self.wire.bodies[start:]:
            self.counts["requests"] += 1
            self.counts["summaries"] += asks_for_summary(body)
            found = set(NUMBER.findall(json.dumps(body)))
            if foreign := found - allowed:
                raise Misheard(f"a request has words that are not of its list: {', '.join(sorted(foreign))}")
            if f"<<{self.number}>>" not in found and not asks_for_summary(body):
                raise Misheard(f"a request has not the newest message, <<{self.number}>>")
        return after

    def check(self) -> None:
        refused = [entry for entry in self.twin.ledger if entry["status"] != 200]
        if refused:
            raise Misheard(f"the API refused a request: {refused[0].get('error') or refused[0]['status']}")
        passed = [event for event in self.events if isinstance(event, PassedThrough)]
        if passed:
            raise Misheard(f"{passed[0].why}: {passed[0].detail}")


# ── the ways in ──────────────────────────────────────────────────────────────────────────────────


class Sdk:
    """Through the middleware of the Anthropic SDK."""

    def __init__(self, caller: Caller, folder: Path) -> None:
        self._caller, self._folder = caller, folder
        self._start()

    def _start(self) -> None:
        self._middleware = everturn.middleware(
            SMALL,
            config=None,
            folder=self._folder,
            listen=self._caller.events.append,
            clock=self._caller.twin.twin.clock.now,
        )
        self._client = self._caller.twin.client(
            middleware=[self._middleware, self._caller.wire], max_retries=0
        )

    def restart(self) -> None:
        self._middleware.close()
        self._start()

    def is_turn(self, message: Any) -> bool:
        return message["role"] == "user"

    def ask(self, history: Sequence[Any], words: str, system: str) -> list[Any]:
        messages = [*history, {"role": "user", "content": words}]
        reply = self._client.messages.create(model=MODEL, max_tokens=1_000, system=system, messages=messages)
        content = [block.model_dump(mode="json", exclude_none=True) for block in reply.content]
        return [*messages, {"role": "assistant", "content": content}]


def read_file(path: str) -> str:
    """Reads a file."""
    return f"{path}\n" + "a record of the feed was parsed\n" * 40


class LangChain:
    """An agent of LangChain, with its tool loop."""

    def __init__(self, caller: Caller, folder: Path) -> None:
        from langchain_anthropic import ChatAnthropic

        self._caller, self._folder = caller, folder
        self._model = ChatAnthropic(model_name=MODEL, api_key="k", max_retries=0, max_tokens=1_000)  # type: ignore[call-arg,arg-type]
        # Where it keeps its client, once it is made.
        self._model.__dict__["_client"] = caller.twin.client(middleware=[caller.wire], max_retries=0)
        self._start()

    def _start(self) -> None:
        from everturn.adapters.langchain import EverturnMiddleware

        self._middleware = EverturnMiddleware(
            SMALL,
            config=None,
            folder=self._folder,
            listen=self._caller.events.append,
            clock=self._caller.twin.twin.clock.now,
        )

    def restart(self) -> None:
        self._middleware.close()
        self._start()

    def is_turn(self, message: Any) -> bool:
        return message.type == "human"

    def ask(self, history: Sequence[Any], words: str, system: str) -> list[Any]:
        from langchain.agents import create_agent
        from langchain_core.tools import tool

        agent: Any = create_agent(
            self._model, tools=[tool(read_file)], system_prompt=system, middleware=[self._middleware]
        )
        return agent.invoke({"messages": [*history, ("user", words)]})["messages"]


class PydanticAi:
    """An agent of pydantic-ai, with its tool loop."""

    def __init__(self, caller: Caller, folder: Path) -> None:
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        self._caller, self._folder = caller, folder
        client = caller.twin.async_client(middleware=[caller.wire], max_retries=0)
        self._model = AnthropicModel(MODEL, provider=AnthropicProvider(anthropic_client=client))
        self._start()

    def _start(self) -> None:
        from everturn.adapters.pydantic_ai import Everturn

        self._capability = Everturn(
            SMALL,
            config=None,
            folder=self._folder,
            listen=self._caller.events.append,
            clock=self._caller.twin.twin.clock.now,
        )

    def restart(self) -> None:
        self._capability.close()
        self._start()

    def is_turn(self, message: Any) -> bool:
        return any(part.part_kind == "user-prompt" for part in message.parts)

    def ask(self, history: Sequence[Any], words: str, system: str) -> list[Any]:
        from pydantic_ai import Agent

        agent: Any = Agent(
            self._model,
            capabilities=[self._capability],
            tools=[read_file],
            instructions=system,
            model_settings={"max_tokens": 1_000},
        )
        done = asyncio.run(agent.run(words, message_history=list(history) or None))
        return done.all_messages()


SURFACES: dict[str, Callable[[Caller, Path], Surface]] = {
    "sdk": Sdk,
    "langchain": LangChain,
    "pydantic-ai": PydanticAi,
}
HABITS = ("go on", "go on", "go on", "again", "rewind", "branch", "trim", "other system", "restart")


def called(seed: int) -> Counter[str]:
    rng = random.Random(f"caller {seed}")
    with TemporaryDirectory(prefix="everturn-callers-", dir=in_memory()) as folder, quiet():
        caller = Caller(rng.choice(tuple(SURFACES)), Path(folder), rng)
        for _ in range(STEPS):
            caller.act()
        caller.check()
        caller.surface.restart()
    return caller.counts
