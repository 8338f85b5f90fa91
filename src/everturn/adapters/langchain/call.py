"""One call of an agent's model: the request as it came, in the API's words, and as it is to be sent.

Markers are left to langchain-anthropic: it puts one behind the last message by itself, and takes another at
the end of the system prompt. Other models get none.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from langchain.agents.middleware.types import ModelRequest
from langchain_core.messages import BaseMessage, SystemMessage

from everturn.adapters.framework import Piece, body_of, traced
from everturn.adapters.langchain.messages import content_blocks, messages_of, piece_of, tool_fields
from everturn.adapters.shadow import Ticket

Marker = dict[str, Any]
MARKER: Final[Marker] = {"type": "ephemeral"}


class Call:
    def __init__(self, request: ModelRequest[Any], summary_model: Any = None) -> None:
        self.request = request
        self.model = _name(request.model)
        self._summary_model = summary_model or request.model
        is_system = [isinstance(each, SystemMessage) for each in request.messages]
        first = is_system.index(False) if False in is_system else len(is_system)
        # System messages at the front are no part of what may be summarized.
        self._front: list[BaseMessage] = list(request.messages[:first])
        self._messages: list[BaseMessage] = list(request.messages[first:])
        self._pieces: list[Piece] = list(map(piece_of, self._messages))
        self._marker = _marker(request)

    def body(self) -> dict[str, Any]:
        """The request as the Messages API takes it. Tools and system prompt are in it, to be counted."""
        request = self.request
        system = [*filter(None, [request.system_message]), *self._front]
        return body_of(
            self.model,
            self._pieces,
            max_tokens=_setting(request, "max_tokens"),
            thinking=_setting(request, "thinking"),
            cache_control=self._marker,
            system=[block for each in system for block in content_blocks(each.content)],
            tools=list(map(tool_fields, request.tools)),
        )

    def attempt(self, ticket: Ticket) -> ModelRequest[Any]:
        """The agent's request with what the engine shows of its messages."""
        shown = [*self._front, *self._shown(ticket.fields()["messages"])]
        made = self.request.override(messages=shown)
        if self._marker is None:
            return made
        settings = {**made.model_settings, "cache_control": self._marker}
        return made.override(
            model_settings=settings, system_message=_marked(made.system_message, self._marker)
        )

    def asking(self, body: bytes) -> tuple[Any, list[BaseMessage]]:
        """A model and its messages, for a request of the engine's own: for a summary."""
        fields = msgspec.json.decode(body)
        model, settings = self._summary_model, {}
        if is_anthropic(model):
            settings = {name: fields[name] for name in ("max_tokens", "thinking") if name in fields}
        if not fields.get("tools"):
            system = SystemMessage(fields["system"]) if fields.get("system") else None
            return model.bind(**settings), [*filter(None, [system]), *self._shown(fields["messages"])]
        # A fork shares the agent's prompt to the last byte: settings, tools, system and markers are its own.
        if self._marker is not None:
            settings["cache_control"] = self._marker
        bound = model.bind_tools(self.request.tools, **{**self.request.model_settings, **settings})
        system = _marked(self.request.system_message, self._marker)
        return bound, [*filter(None, [system]), *self._front, *self._shown(fields["messages"])]

    def _shown(self, messages: Sequence[Any]) -> list[Any]:
        return messages_of(traced(messages, self._pieces), self._messages)


def is_anthropic(model: Any) -> bool:
    """ChatAnthropic and what is made of it, without importing langchain-anthropic."""
    return str(getattr(model, "_llm_type", "")).startswith("anthropic")


def _name(model: Any) -> str:
    return str(getattr(model, "model", "") or getattr(model, "model_name", "") or type(model).__name__)


def _setting(request: ModelRequest[Any], name: str) -> Any:
    return request.model_settings.get(name) or getattr(request.model, name, None)


def _marker(request: ModelRequest[Any]) -> Marker | None:
    """The agent's own, if it has one."""
    return request.model_settings.get("cache_control", MARKER) if is_anthropic(request.model) else None


def _marked(message: SystemMessage | None, marker: Marker | None) -> SystemMessage | None:
    if message is None or marker is None or not message.content:
        return message
    *before, last = content_blocks(message.content)
    return message.model_copy(update={"content": [*before, {"cache_control": marker, **last}]})
