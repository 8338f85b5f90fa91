"""One request to an agent's model: the original, its form in the API's format, and the request to send.

pydantic-ai places the cache breakpoints. If no setting mentions caching, its `cache` setting is turned on;
pydantic-ai translates that for each provider.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, cast

import msgspec
from pydantic_ai.messages import InstructionPart, ModelMessage
from pydantic_ai.models import Model, ModelRequestContext, ModelRequestParameters, infer_model
from pydantic_ai.models.fallback import FallbackModel

from everturn.adapters.framework import FrameworkMessage, build_body, trace_blocks
from everturn.adapters.pydantic_ai.messages import (
    ConvertedMessage,
    build_messages,
    collect_permanent_parts,
    convert_message,
)
from everturn.adapters.tracking import PreparedCall
from everturn.measure.model_table import find_model

HOUR: Final = "1h"
# Whether thinking is on is what matters to the engine; the budget is pydantic-ai's own for each level.
MIN_BUDGET: Final = 1024
# pydantic-ai translates `thinking` for each model; a provider's own setting would override it.
THINKING_DISABLED: Final[dict[str, Any]] = {"thinking": False, "anthropic_thinking": None}


class PydanticAICall:
    """One request to an agent's model."""

    def __init__(self, context: ModelRequestContext) -> None:
        self.context = context
        self.model = model_name(context.model)
        self._settings: dict[str, Any] = dict(context.model_settings or {})
        if not any(name == "cache" or "_cache" in name for name in self._settings):
            self._settings["cache"] = True
        self._sources: list[ConvertedMessage] = list(map(convert_message, context.messages))
        self._converted: list[FrameworkMessage] = [each.converted for each in self._sources]

    @property
    def is_anthropic(self) -> bool:
        """Whether the prices and the cache of the model are those of the Messages API."""
        return self.context.model.system == "anthropic"

    def body(self) -> dict[str, Any]:
        """The request in the format of the Messages API. It includes tools and instructions for counting."""
        is_long = any(value == HOUR for name, value in self._settings.items() if "cache" in name)
        return build_body(
            self.model,
            self._converted,
            max_tokens=self._settings.get("max_tokens"),
            thinking=self._thinking(),
            cache_control={"type": "ephemeral", "ttl": HOUR} if is_long else None,
            system=self._system(),
            tools=list(map(_tool, _tools(self.context.model_request_parameters))),
            tool_choice=_tool_choice(self.context.model_request_parameters),
        )

    def build_request(self, prepared: PreparedCall) -> ModelRequestContext:
        """The agent's request with the engine's messages."""
        messages = self._convert_back(prepared.fields()["messages"])
        settings: Any = self._settings
        return replace(self.context, messages=messages, model_settings=settings)

    def build_summary_call(self, body: bytes) -> tuple[list[ModelMessage], Any, ModelRequestParameters]:
        """Messages, settings and parameters for a summary request."""
        fields = msgspec.json.decode(body)
        settings = {"max_tokens": fields["max_tokens"]}
        if fields.get("system", []) == self._system():
            # A fork shares the agent's cached prefix. Text output must be allowed for the summary.
            parameters = replace(self.context.model_request_parameters, allow_text_output=True)
            return self._convert_back(fields["messages"]), self._settings | settings, parameters
        messages = build_messages(trace_blocks(fields["messages"], self._converted), self._sources)
        instructions = [InstructionPart(content=block["text"]) for block in fields.get("system", ())]
        # The messages have no thinking blocks, which a model with thinking enabled requires.
        return messages, settings | THINKING_DISABLED, ModelRequestParameters(instruction_parts=instructions)

    def find_model(self, name: str, summary_model: Model | str | None) -> Model:
        """The model that a summary request names: the summary model, or the agent's own."""
        own = self.context.model
        if not summary_model or name != model_name(summary_model):
            return own
        if not isinstance(summary_model, str):
            return summary_model
        # Another model of the agent's provider, unless the name has one: "openai:gpt-5-mini".
        provider, same_kind = getattr(own, "provider", None), cast(Any, type(own))
        return infer_model(name) if ":" in name or provider is None else same_kind(name, provider=provider)

    def _thinking(self) -> dict[str, Any] | None:
        """The thinking that is asked of Claude. pydantic-ai translates its own setting, `thinking`, when the
        request is sent. Of other models nothing is known: their replies need not begin with thinking."""
        if own := self._settings.get("anthropic_thinking"):
            return own
        if not self._settings.get("thinking") or find_model(self.model) is None:
            return None
        model = self.context.model
        first = model.models[0] if isinstance(model, FallbackModel) else model
        profile = cast(Mapping[str, Any], first.profile)
        is_adaptive = profile.get("anthropic_supports_adaptive_thinking", False)
        return {"type": "adaptive"} if is_adaptive else {"type": "enabled", "budget_tokens": MIN_BUDGET}

    def _system(self) -> list[dict[str, str]]:
        parts = [
            part
            for each in self._sources
            for part in each.permanent_parts
            if part.part_kind == "system-prompt"
        ]
        parts += self.context.model_request_parameters.instruction_parts or []
        return [{"type": "text", "text": part.content} for part in parts if part.content]

    def _convert_back(self, messages: Sequence[Mapping[str, Any]]) -> list[ModelMessage]:
        traced = trace_blocks(messages, self._converted)
        return [*collect_permanent_parts(traced, self._sources), *build_messages(traced, self._sources)]


def model_name(model: Model | str) -> str:
    """The name of a model; a name is given as it is. Models with a fallback have that of the first one, which
    answers nearly all requests: their own is that of no model."""
    if isinstance(model, FallbackModel):
        return model_name(model.models[0])
    return model if isinstance(model, str) else model.model_name


def _tools(parameters: ModelRequestParameters) -> list[Any]:
    return [*parameters.function_tools, *parameters.output_tools]


def _tool_choice(parameters: ModelRequestParameters) -> dict[str, str] | None:
    """pydantic-ai forces a call where the answer must be one."""
    is_forced = parameters.output_tools and not parameters.allow_text_output
    return {"type": "any"} if is_forced else None


def _tool(tool: Any) -> dict[str, Any]:
    schema = tool.parameters_json_schema
    return {"name": tool.name, "description": tool.description or "", "input_schema": schema}
