"""One request to an agent's model: as it came, in the API's words, and as it is to be sent.

Markers are left to pydantic-ai: where nobody has said anything about caching, its `cache` setting is
turned on, and it knows what that means for each provider.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec
from pydantic_ai.messages import InstructionPart, ModelMessage
from pydantic_ai.models import ModelRequestContext, ModelRequestParameters

from everturn.adapters.framework import FrameworkMessage, build_body, trace_blocks
from everturn.adapters.pydantic_ai.messages import (
    ConvertedMessage,
    build_messages,
    collect_permanent_parts,
    convert_message,
)
from everturn.adapters.tracking import PreparedCall

HOUR: Final = "1h"
# pydantic-ai knows how each model is told so; a setting of the model's own would come before it.
THINKING_DISABLED: Final[dict[str, Any]] = {"thinking": False, "anthropic_thinking": None}


class PydanticAICall:
    def __init__(self, context: ModelRequestContext) -> None:
        self.context = context
        self.model = context.model.model_name
        self._settings: dict[str, Any] = dict(context.model_settings or {})
        if not any(name == "cache" or "_cache" in name for name in self._settings):
            self._settings["cache"] = True
        self._sources: list[ConvertedMessage] = list(map(convert_message, context.messages))
        self._pieces: list[FrameworkMessage] = [each.piece for each in self._sources]

    def body(self) -> dict[str, Any]:
        """The request as the Messages API takes it. Tools and instructions are in it, to be counted."""
        is_long = any(value == HOUR for name, value in self._settings.items() if "cache" in name)
        return build_body(
            self.model,
            self._pieces,
            max_tokens=self._settings.get("max_tokens"),
            thinking=self._settings.get("anthropic_thinking"),
            cache_control={"type": "ephemeral", "ttl": HOUR} if is_long else None,
            system=self._system(),
            tools=list(map(_tool, _tools(self.context.model_request_parameters))),
        )

    def build_request(self, ticket: PreparedCall) -> ModelRequestContext:
        """The agent's request with what the engine shows of its messages."""
        shown = self._shown(ticket.fields()["messages"])
        settings: Any = self._settings
        return replace(self.context, messages=shown, model_settings=settings)

    def asking(self, body: bytes) -> tuple[list[ModelMessage], Any, ModelRequestParameters]:
        """Messages, settings and parameters, for a request of the engine's own: for a summary."""
        fields = msgspec.json.decode(body)
        settings = {"max_tokens": fields["max_tokens"]}
        if fields.get("system", []) == self._system():
            # A fork shares the agent's prompt to the last byte, but it may always answer in words.
            parameters = replace(self.context.model_request_parameters, allow_text_output=True)
            return self._shown(fields["messages"]), self._settings | settings, parameters
        shown = build_messages(trace_blocks(fields["messages"], self._pieces), self._sources)
        words = [InstructionPart(content=block["text"]) for block in fields.get("system", ())]
        # There is no thinking in what it reads, and an agent that thinks could not go on without.
        return shown, settings | THINKING_DISABLED, ModelRequestParameters(instruction_parts=words)

    def _system(self) -> list[dict[str, str]]:
        parts = [part for each in self._sources for part in each.held if part.part_kind == "system-prompt"]
        parts += self.context.model_request_parameters.instruction_parts or []
        return [{"type": "text", "text": part.content} for part in parts if part.content]

    def _shown(self, messages: Sequence[Mapping[str, Any]]) -> list[ModelMessage]:
        shown = trace_blocks(messages, self._pieces)
        return [*collect_permanent_parts(shown, self._sources), *build_messages(shown, self._sources)]


def _tools(parameters: ModelRequestParameters) -> list[Any]:
    return [*parameters.function_tools, *parameters.output_tools]


def _tool(tool: Any) -> dict[str, Any]:
    schema = tool.parameters_json_schema
    return {"name": tool.name, "description": tool.description or "", "input_schema": schema}
