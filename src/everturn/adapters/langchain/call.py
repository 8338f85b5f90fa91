"""One call of an agent's model: the request as it came, in the API's words, and as it is to be sent.

Markers are left to langchain-anthropic: it puts one behind the last message by itself, and takes another at
the end of the system prompt. Other models get none.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from langchain.agents.middleware.types import ModelRequest
from langchain_core.messages import BaseMessage, SystemMessage

from everturn.adapters.framework import FrameworkMessage, build_body, trace_blocks
from everturn.adapters.langchain.messages import (
    build_messages,
    content_blocks,
    to_framework_message,
    tool_fields,
)
from everturn.adapters.tracking import PreparedCall

CacheControl = dict[str, Any]
EPHEMERAL: Final[CacheControl] = {"type": "ephemeral"}


class LangChainCall:
    def __init__(self, request: ModelRequest[Any], summary_model: Any = None) -> None:
        self.request = request
        self.model = _name(request.model)
        self._summary_model = summary_model or request.model
        is_system = [isinstance(each, SystemMessage) for each in request.messages]
        first = is_system.index(False) if False in is_system else len(is_system)
        # System messages at the front are no part of what may be summarized.
        self._front: list[BaseMessage] = list(request.messages[:first])
        self._messages: list[BaseMessage] = list(request.messages[first:])
        self._pieces: list[FrameworkMessage] = list(map(to_framework_message, self._messages))
        self._marker = _marker(request)

    def body(self) -> dict[str, Any]:
        """The request as the Messages API takes it. Tools and system prompt are in it, to be counted."""
        request = self.request
        return build_body(
            self.model,
            self._pieces,
            max_tokens=_setting(request, "max_tokens"),
            thinking=_setting(request, "thinking"),
            cache_control=self._marker,
            system=self._system(),
            tools=list(map(tool_fields, request.tools)),
        )

    def build_request(self, ticket: PreparedCall) -> ModelRequest[Any]:
        """The agent's request with what the engine shows of its messages."""
        shown = [*self._front, *self._shown(ticket.fields()["messages"])]
        return self._marked(self.request.override(messages=shown))

    def asking(self, body: bytes) -> tuple[Any, list[BaseMessage]]:
        """A model and its messages, for a request of the engine's own: for a summary."""
        fields = msgspec.json.decode(body)
        is_fork = fields.get("system", []) == self._system()
        return self._forking(fields) if is_fork else self._apart(fields)

    def _forking(self, fields: dict[str, Any]) -> tuple[Any, list[BaseMessage]]:
        """A fork shares the agent's prompt to the last byte: settings, tools and markers are its own."""
        attempt = self._marked(self.request)
        settings = {**attempt.model_settings, **self._output(fields)}
        model = self._summary_model
        bound = model.bind_tools(attempt.tools, **settings) if attempt.tools else model.bind(**settings)
        front = [*filter(None, [attempt.system_message]), *self._front]
        return bound, [*front, *self._shown(fields["messages"])]

    def _apart(self, fields: dict[str, Any]) -> tuple[Any, list[BaseMessage]]:
        """A call of its own. It thinks as it is told: there is no thinking in what it reads, and an agent
        that thinks could not go on without."""
        model = self._summary_model
        if is_anthropic(model):
            model = model.model_copy(update={"thinking": fields.get("thinking")})
        front = [SystemMessage(fields["system"])] if fields.get("system") else []
        return model.bind(**self._output(fields)), [*front, *self._shown(fields["messages"])]

    def _output(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Other models have other names for it, and limits of their own."""
        return {"max_tokens": fields["max_tokens"]} if is_anthropic(self._summary_model) else {}

    def _system(self) -> list[dict[str, Any]]:
        held = [*filter(None, [self.request.system_message]), *self._front]
        return [block for each in held for block in content_blocks(each.content)]

    def _marked(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        if self._marker is None:
            return request
        settings = {**request.model_settings, "cache_control": self._marker}
        return request.override(
            model_settings=settings, system_message=_marked(request.system_message, self._marker)
        )

    def _shown(self, messages: Sequence[Any]) -> list[Any]:
        return build_messages(trace_blocks(messages, self._pieces), self._messages)


def is_anthropic(model: Any) -> bool:
    """ChatAnthropic and what is made of it, without importing langchain-anthropic."""
    return str(getattr(model, "_llm_type", "")).startswith("anthropic")


def _name(model: Any) -> str:
    return str(getattr(model, "model", "") or getattr(model, "model_name", "") or type(model).__name__)


def _setting(request: ModelRequest[Any], name: str) -> Any:
    return request.model_settings.get(name) or getattr(request.model, name, None)


def _marker(request: ModelRequest[Any]) -> CacheControl | None:
    """The agent's own, if it has one."""
    return request.model_settings.get("cache_control", EPHEMERAL) if is_anthropic(request.model) else None


def _marked(message: SystemMessage | None, marker: CacheControl) -> SystemMessage | None:
    if message is None or not message.content:
        return message
    *before, last = content_blocks(message.content)
    return message.model_copy(update={"content": [*before, {"cache_control": marker, **last}]})
