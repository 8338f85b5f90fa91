"""One call of an agent's model: the original request, its form in the API's format, and the request to send.

langchain-anthropic places the cache breakpoints: it sets one on the last message itself and accepts another
at the end of the system prompt. Other models get none.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from langchain.agents.middleware.types import ModelRequest
from langchain.agents.structured_output import OutputToolBinding, ProviderStrategy, ToolStrategy
from langchain_core.messages import AIMessage, BaseMessage, SystemMessage

from everturn.adapters.framework import FrameworkMessage, build_body, build_response, trace_blocks
from everturn.adapters.langchain.messages import (
    build_messages,
    content_blocks,
    to_framework_message,
    to_framework_reply,
    tool_fields,
)
from everturn.adapters.tracking import PreparedCall
from everturn.session.upstream import RawResponse
from everturn.wire.anthropic import without_cache_control
from everturn.wire.json_values import is_object

CacheControl = dict[str, Any]
EPHEMERAL: Final[CacheControl] = {"type": "ephemeral"}
MARKER: Final = "cache_control"
# As many as the API takes in one request.
MAX_BREAKPOINTS: Final = 4


class LangChainCall:
    """One call of an agent's model. `summary_model` is a chat model or its name; None for the agent's own."""

    def __init__(self, request: ModelRequest[Any], summary_model: Any = None) -> None:
        self.request = request
        self.model = model_name(request.model)
        self._summary_model = summary_model
        is_system = [isinstance(each, SystemMessage) for each in request.messages]
        first = is_system.index(False) if False in is_system else len(is_system)
        # System messages at the start must not be summarized.
        self._front: list[BaseMessage] = list(request.messages[:first])
        self._messages: list[BaseMessage] = list(request.messages[first:])
        self._converted: list[FrameworkMessage] = list(map(to_framework_message, self._messages))
        self._cache_control = _read_cache_control(request)
        # The caller's breakpoints in messages move to their end; those in tools and system stay.
        self._marked = _count_markers([*request.tools, *self._system()])

    @property
    def is_cached(self) -> bool:
        """Whether the model's provider caches prompts where breakpoints say so."""
        return self._cache_control is not None

    def read_reply(self, reply: AIMessage, default_id: str) -> RawResponse:
        """The response that the Messages API would have sent."""
        is_for_hour = (self._cache_control or EPHEMERAL).get("ttl") == "1h"
        read = to_framework_reply(reply, self.model, default_id, is_for_hour=is_for_hour)
        return build_response(read)

    def body(self) -> dict[str, Any]:
        """The request in the format of the Messages API. It includes tools and system prompt for counting."""
        request = self.request
        return build_body(
            self.model,
            self._converted,
            max_tokens=_setting(request, "max_tokens"),
            thinking=_setting(request, "thinking"),
            cache_control=self._cache_control,
            system=self._system(),
            tools=list(map(tool_fields, self._tools())),
            tool_choice=_tool_choice(request),
            output_config=_output_config(request),
        )

    def build_request(self, prepared: PreparedCall) -> ModelRequest[Any]:
        """The agent's request with the engine's messages."""
        # Any: `override` declares the union of LangChain's own classes, and a message may be any BaseMessage.
        messages: list[Any] = [*self._front, *self._convert_back(prepared.fields()["messages"])]
        if self._cache_control is not None:
            messages[len(self._front) :] = map(_without_markers, messages[len(self._front) :])
        return self._add_breakpoints(self.request.override(messages=messages))

    def build_summary_call(self, body: bytes) -> tuple[Any, list[BaseMessage]]:
        """The model and the messages for a summary request."""
        fields = msgspec.json.decode(body)
        is_fork = fields.get("system", []) == self._system()
        return self._build_fork_call(fields) if is_fork else self._build_separate_call(fields)

    def _build_fork_call(self, fields: dict[str, Any]) -> tuple[Any, list[BaseMessage]]:
        """A fork shares the agent's cached prefix, so settings, tools and breakpoints must be the agent's."""
        request = self._add_breakpoints(self.request)
        model = request.model
        settings = {**request.model_settings, **_output_limit(model, fields)}
        tools = self._tools()
        bound = model.bind_tools(tools, **settings) if tools else model.bind(**settings)
        front = [*filter(None, [request.system_message]), *self._front]
        messages = self._convert_back(fields["messages"])
        if self._cache_control is not None:
            messages = list(map(_without_markers, messages))
        return bound, [*front, *messages]

    def _build_separate_call(self, fields: dict[str, Any]) -> tuple[Any, list[BaseMessage]]:
        """A separate call with its own prompt. Its messages have no thinking blocks, which a model with
        thinking enabled requires, so it uses the thinking setting of the summary request."""
        model = self._find_model(fields["model"])
        if is_anthropic(model):
            model = model.model_copy(update={"thinking": fields.get("thinking")})
        front = [SystemMessage(fields["system"])] if fields.get("system") else []
        return model.bind(**_output_limit(model, fields)), [*front, *self._convert_back(fields["messages"])]

    def _find_model(self, name: str) -> Any:
        """The chat model that a summary request names: the summary model, or the agent's own."""
        summary_model: Any = self._summary_model
        own: Any = self.request.model
        if not summary_model or name != model_name(summary_model):
            return own
        if not isinstance(summary_model, str):
            return summary_model
        # The agent's client with another model, unless the name has a provider: "openai:gpt-5-mini".
        field = next((each for each in ("model", "model_name") if hasattr(own, each)), "")
        if field and ":" not in name:
            return own.model_copy(update={field: name})
        from langchain.chat_models import init_chat_model

        return init_chat_model(name)

    def _tools(self) -> list[Any]:
        """The agent's tools, and those that LangChain adds for structured output."""
        form: Any = self.request.response_format
        specs: Sequence[Any] = form.schema_specs if isinstance(form, ToolStrategy) else ()
        # Any: the binding is generic in a schema that is not known here.
        binding: Any = OutputToolBinding
        return [*self.request.tools, *(binding.from_schema_spec(each).tool for each in specs)]

    def _system(self) -> list[dict[str, Any]]:
        system = [*filter(None, [self.request.system_message]), *self._front]
        return [block for each in system for block in content_blocks(each.content)]

    def _add_breakpoints(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        """One at the end of the messages, and one at the end of the system prompt if there is room for it."""
        if self._cache_control is None or self._marked >= MAX_BREAKPOINTS:
            return request
        system = request.system_message
        if self._marked < MAX_BREAKPOINTS - 1:
            system = _add_breakpoint(system, self._cache_control)
        settings = {**request.model_settings, "cache_control": self._cache_control}
        return request.override(model_settings=settings, system_message=system)

    def _convert_back(self, messages: Sequence[Mapping[str, Any]]) -> list[BaseMessage]:
        return build_messages(trace_blocks(messages, self._converted), self._messages)


def is_anthropic(model: Any) -> bool:
    """Whether it is a `ChatAnthropic` or a subclass, without importing langchain-anthropic."""
    return str(getattr(model, "_llm_type", "")).startswith("anthropic")


def _output_limit(model: Any, fields: dict[str, Any]) -> dict[str, Any]:
    """Other providers use other names for `max_tokens` and have their own limits."""
    return {"max_tokens": fields["max_tokens"]} if is_anthropic(model) else {}


def model_name(model: Any) -> str:
    """The name of a chat model; a name is given as it is."""
    if isinstance(model, str):
        return model
    return str(getattr(model, "model", "") or getattr(model, "model_name", "") or type(model).__name__)


def _setting(request: ModelRequest[Any], name: str) -> Any:
    return request.model_settings.get(name) or getattr(request.model, name, None)


def _tool_choice(request: ModelRequest[Any]) -> dict[str, Any] | None:
    """LangChain forces a call where the answer is one."""
    is_forced = isinstance(request.response_format, ToolStrategy) or request.tool_choice == "any"
    return {"type": "any"} if is_forced else None


def _output_config(request: ModelRequest[Any]) -> dict[str, Any] | None:
    """The format that LangChain asks for, as far as the cache key is concerned."""
    form = request.response_format
    schema = form.schema_spec.json_schema if isinstance(form, ProviderStrategy) else None
    return {"format": {"type": "json_schema", "schema": schema}} if schema else None


def _read_cache_control(request: ModelRequest[Any]) -> CacheControl | None:
    """The agent's own `cache_control`, if it has one. None where no breakpoints are placed."""
    if not is_anthropic(request.model):
        return None
    if MARKER in request.model_settings:
        return request.model_settings[MARKER]
    own = [part[MARKER] for message in request.messages for part in _marked_parts(message)]
    # One that asks for an hour must not stand behind one that does not.
    return next((each for each in own if each.get("ttl") == "1h"), EPHEMERAL)


def _marked_parts(message: BaseMessage) -> list[dict[str, Any]]:
    content: Any = message.content
    parts = [] if isinstance(content, str) else [part for part in content if is_object(part)]
    return [part for part in parts if part.get(MARKER)]


def _without_markers(message: BaseMessage) -> BaseMessage:
    """The same object if it has no breakpoint."""
    if not _marked_parts(message):
        return message
    return message.model_copy(update={"content": without_cache_control(message.content)})


def _count_markers(values: Sequence[Any]) -> int:
    """How many of these tools and blocks have a breakpoint."""
    extras = [each if is_object(each) else getattr(each, "extras", None) or {} for each in values]
    return sum(bool(each.get(MARKER)) for each in extras)


def _add_breakpoint(message: SystemMessage | None, cache_control: CacheControl) -> SystemMessage | None:
    if message is None or not message.content:
        return message
    *before, last = content_blocks(message.content)
    return message.model_copy(update={"content": [*before, {"cache_control": cache_control, **last}]})
