"""The ways into everturn for programs that keep their own list of messages: the SDK, LangChain, pydantic-ai.

A history is whatever such a program keeps. What the user says in one turn is spelled as messages of texts; it
may be kept in another spelling than it was sent in.
"""

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import anthropic
import httpx2
from adapters.framework_bench import Wire

import everturn
from everturn.adapters.tracking.conversations import TrackedConversations
from everturn.measure.model_table import model_or_default
from everturn.session.bill import Bill
from everturn.twin.testing import TwinForTests

MAX_TOKENS = 2_500
# So often the SDK's program lets the model call tools in one turn.
MOST_ROUNDS = 3
# How many messages with results a program leaves whole when it prunes its list.
KEPT_RESULTS = 2
# What a result is called, in its own words and in what a program leaves of it.
NAMES = re.compile(r"result\d+")
WEB_SEARCH = {"type": "web_search_20250305", "name": "web_search"}
KEEP_ALL = {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}

# The messages of one turn, each with its texts.
Spelling = tuple[tuple[str, ...], ...]
# What a tool answers.
Answer = Callable[[str], str]


class Mode(NamedTuple):
    """What a request has beside its messages."""

    model: str
    system: str
    tools: tuple[str, ...]
    thinks: bool
    # What only the program of the SDK asks for: a search that the API pauses a reply for, thinking that is
    # never cleared, and how a reply must begin.
    searches: bool = False
    keeps_thinking: bool = False
    prefill: str = ""

    @property
    def takes_prefill(self) -> bool:
        """The API refuses one beside thinking, and newer models refuse any."""
        return bool(self.prefill) and not self.thinks and model_or_default(self.model).model.prefill

    @property
    def thinking(self) -> dict[str, Any] | None:
        if not self.thinks:
            return None
        if "adaptive" in model_or_default(self.model).model.thinking:
            return {"type": "adaptive"}
        return {"type": "enabled", "budget_tokens": 1_024}


class Place(NamedTuple):
    """What a program runs in: the API, the wire to it, the folder, and whom it tells."""

    twin: TwinForTests
    wire: Wire
    folder: Path
    listen: Callable[[Any], None]
    answer: Answer
    new_id: Callable[[], str]
    # The options, or one option in the place of all: the others are then the adapter's own.
    options: dict[str, Any]

    def adapter_options(self) -> dict[str, Any]:
        clock = self.twin.twin.clock.now
        return {
            **self.options,
            "config": None,
            "folder": self.folder,
            "listen": self.listen,
            "clock": clock,
            "new_id": self.new_id,
        }


class Surface(Protocol):
    """One way into everturn."""

    def ask(self, history: Sequence[Any], said: Spelling, mode: Mode) -> list[Any]:
        """The history after the model's answer."""
        ...

    def spell(self, said: Spelling) -> list[Any]:
        """The messages of a turn, as a history has them."""
        ...

    def is_turn(self, message: Any) -> bool:
        """Whether a message of a history is something that the user said."""
        ...

    def prune(self, history: Sequence[Any]) -> list[Any]:
        """The history with a few words for each old result of a tool, where its program does such a thing."""
        ...

    def restart(self) -> None: ...

    @property
    def adapter(self) -> TrackedConversations: ...

    @property
    def bill(self) -> Bill: ...

    @property
    def unsupported(self) -> Mapping[str, int]: ...


class Sdk:
    """Through the middleware of the Anthropic SDK, with a tool loop of its own; every second call streams."""

    def __init__(self, place: Place) -> None:
        self._place, self._calls = place, 0
        self._start()

    def _start(self) -> None:
        self._middleware = everturn.middleware(**self._place.adapter_options())
        self._client = self._place.twin.client(middleware=[self._middleware, self._place.wire], max_retries=0)

    def restart(self) -> None:
        self._middleware.close()
        self._start()

    def prune(self, history: Sequence[Any]) -> list[Any]:
        old = [at for at, each in enumerate(history) if _has_results(each)][:-KEPT_RESULTS]
        return [_pruned(each) if at in old else each for at, each in enumerate(history)]

    @property
    def adapter(self) -> TrackedConversations:
        return self._middleware

    @property
    def bill(self) -> Bill:
        return self._middleware.bill

    @property
    def unsupported(self) -> Mapping[str, int]:
        return self._middleware.tracker.unsupported

    def is_turn(self, message: Any) -> bool:
        content = message["content"]
        return message["role"] == "user" and (
            isinstance(content, str) or all(block["type"] == "text" for block in content)
        )

    def spell(self, said: Spelling) -> list[Any]:
        return [
            {
                "role": "user",
                "content": texts[0]
                if len(texts) == 1
                else [{"type": "text", "text": each} for each in texts],
            }
            for texts in said
        ]

    def ask(self, history: Sequence[Any], said: Spelling, mode: Mode) -> list[Any]:
        messages = [*history, *self.spell(said)]
        begins = [{"type": "text", "text": mode.prefill}] if mode.takes_prefill else []
        for left in range(MOST_ROUNDS, -1, -1):
            sent = [*messages, {"role": "assistant", "content": begins}] if begins else messages
            reply = self._call(sent, mode, may_call=left > 0)
            content, begins = _joined(begins, reply["content"]), []
            messages = [*messages, {"role": "assistant", "content": content}]
            if reply["stop_reason"] == "pause_turn":
                # The list goes back as it is, and the model goes on.
                continue
            calls = [block for block in content if block["type"] == "tool_use"]
            if not calls:
                break
            results = [
                {"type": "tool_result", "tool_use_id": call["id"], "content": self._place.answer(str(call))}
                for call in calls
            ]
            messages = [*messages, {"role": "user", "content": results}]
        return messages

    def _call(self, messages: list[Any], mode: Mode, *, may_call: bool) -> dict[str, Any]:
        self._calls += 1
        schema = {"type": "object", "properties": {"path": {"type": "string"}}}
        asked: dict[str, Any] = {
            "model": mode.model,
            "max_tokens": MAX_TOKENS,
            "system": mode.system,
            "messages": messages,
            "tools": [{"name": name, "description": "Reads.", "input_schema": schema} for name in mode.tools],
        }
        if mode.searches:
            asked["tools"].append(WEB_SEARCH)
        if mode.thinking:
            asked["thinking"] = mode.thinking
        if mode.thinking and mode.keeps_thinking:
            asked["extra_body"] = {"context_management": KEEP_ALL}
            asked["extra_headers"] = {"anthropic-beta": "context-management-2025-06-27"}
        if not may_call:
            asked["tool_choice"] = {"type": "none"}
        if self._calls % 2:
            reply = self._client.messages.create(**asked)
        else:
            with self._client.messages.stream(**asked) as stream:
                reply = stream.get_final_message()
        return reply.to_dict(mode="json")


def _joined(begins: list[Any], content: list[Any]) -> list[Any]:
    """A reply as a program keeps it that has begun it itself."""
    if begins and content and content[0]["type"] == "text":
        return [{"type": "text", "text": begins[0]["text"] + content[0]["text"]}, *content[1:]]
    return [*begins, *content]


def _has_results(message: Any) -> bool:
    content = message["content"]
    return not isinstance(content, str) and any(block["type"] == "tool_result" for block in content)


def _pruned(message: Any) -> Any:
    """With the names of the results that are left out: everturn may still have them in view."""
    short = [
        {**block, "content": f"[removed: {', '.join(sorted(set(NAMES.findall(block['content']))))}]"}
        if block["type"] == "tool_result"
        else block
        for block in message["content"]
    ]
    return {**message, "content": short}


class LangChain:
    """An agent of LangChain, with its tool loop."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._start()

    def _start(self) -> None:
        from everturn.adapters.langchain import EverturnMiddleware

        self._middleware = EverturnMiddleware(**self._place.adapter_options())

    def restart(self) -> None:
        self._middleware.close()
        self._start()

    def prune(self, history: Sequence[Any]) -> list[Any]:
        return list(history)

    @property
    def adapter(self) -> TrackedConversations:
        return self._middleware

    @property
    def bill(self) -> Bill:
        return self._middleware.bill

    @property
    def unsupported(self) -> Mapping[str, int]:
        return self._middleware.tracker.unsupported

    def is_turn(self, message: Any) -> bool:
        return message.type == "human"

    def spell(self, said: Spelling) -> list[Any]:
        from langchain_core.messages import HumanMessage

        return [
            HumanMessage(texts[0] if len(texts) == 1 else [{"type": "text", "text": each} for each in texts])
            for texts in said
        ]

    def ask(self, history: Sequence[Any], said: Spelling, mode: Mode) -> list[Any]:
        from langchain.agents import create_agent
        from langchain_core.tools import StructuredTool

        def read(path: str) -> str:
            return self._place.answer(path)

        tools = [StructuredTool.from_function(read, name=name, description="Reads.") for name in mode.tools]
        agent: Any = create_agent(
            self._model(mode), tools=tools, system_prompt=mode.system, middleware=[self._middleware]
        )
        return agent.invoke({"messages": [*history, *self.spell(said)]})["messages"]

    def _model(self, mode: Mode) -> Any:
        from langchain_anthropic import ChatAnthropic

        model = ChatAnthropic(
            model_name=mode.model, api_key="k", max_retries=0, max_tokens=MAX_TOKENS, thinking=mode.thinking
        )  # type: ignore[call-arg,arg-type]
        # Where it keeps its client, once it is made.
        client = self._place.twin.client(middleware=[self._place.wire], max_retries=0)
        model.__dict__["_client"] = client
        return model


class PydanticAi:
    """An agent of pydantic-ai, with its tool loop."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._start()

    def _start(self) -> None:
        from everturn.adapters.pydantic_ai import Everturn

        self._capability = Everturn(**self._place.adapter_options())

    def restart(self) -> None:
        self._capability.close()
        self._start()

    def prune(self, history: Sequence[Any]) -> list[Any]:
        return list(history)

    @property
    def adapter(self) -> TrackedConversations:
        return self._capability

    @property
    def bill(self) -> Bill:
        return self._capability.bill

    @property
    def unsupported(self) -> Mapping[str, int]:
        return self._capability.tracker.unsupported

    def is_turn(self, message: Any) -> bool:
        return any(part.part_kind == "user-prompt" for part in message.parts)

    def spell(self, said: Spelling) -> list[Any]:
        from pydantic_ai.messages import ModelRequest, UserPromptPart

        return [ModelRequest([UserPromptPart(self._prompt(texts))]) for texts in said]

    def _prompt(self, texts: tuple[str, ...]) -> Any:
        return texts[0] if len(texts) == 1 else list(texts)

    def ask(self, history: Sequence[Any], said: Spelling, mode: Mode) -> list[Any]:
        from pydantic_ai import Agent, Tool
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        def read(path: str) -> str:
            return self._place.answer(path)

        client = self._place.twin.async_client(middleware=[self._place.wire], max_retries=0)
        settings: dict[str, Any] = {"max_tokens": MAX_TOKENS}
        if mode.thinking:
            settings["anthropic_thinking"] = mode.thinking
        agent: Any = Agent(
            AnthropicModel(mode.model, provider=AnthropicProvider(anthropic_client=client)),
            capabilities=[self._capability],
            tools=[Tool(read, name=name, description="Reads.") for name in mode.tools],
            instructions=mode.system,
            model_settings=settings,
        )
        *earlier, last = said
        before = [*history, *self.spell(tuple(earlier))]
        done = asyncio.run(agent.run(self._prompt(last), message_history=before or None))
        return done.all_messages()


def failures() -> tuple[type[Exception], ...]:
    """What a failed call raises."""
    from pydantic_ai.exceptions import ModelAPIError

    return (anthropic.APIError, httpx2.HTTPError, ModelAPIError)


SURFACES: dict[str, Callable[[Place], Surface]] = {
    "sdk": Sdk,
    "langchain": LangChain,
    "pydantic-ai": PydanticAi,
}
