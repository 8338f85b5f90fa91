"""The request of a turn as one value, with what the API is asked to clear itself (MC-13, MC-14)."""

from collections.abc import Mapping
from typing import Any

from everturn.decide.micro.declarative import (
    build_context_management,
    keeps_all_thinking,
    thinking_in_replies,
)
from everturn.decide.tools import build_tool_table
from everturn.engine.values import ConversationSettings
from everturn.history.messages import Message
from everturn.view.breakpoints import Breakpoints
from everturn.view.cache_key import thinking_mode
from everturn.view.forks import CapturedRequest
from everturn.view.key_parameters import KeyParameters


def capture_request(
    settings: ConversationSettings,
    parameters: KeyParameters,
    messages: tuple[Message, ...],
    breakpoints: Breakpoints,
) -> CapturedRequest:
    """The complete request: what a fork of the conversation must repeat byte for byte."""
    fields = _request_fields(settings, parameters)
    return CapturedRequest(settings.model.id, settings.preamble, parameters, messages, fields, breakpoints)


def asks_for_all_thinking(settings: ConversationSettings) -> bool:
    """Whether the requests of a conversation ask the API to show the thinking of all turns. Some models show
    only that of the last one otherwise.
    """
    return keeps_all_thinking(_request_fields(settings, settings.parameters).get("context_management"))


def _request_fields(settings: ConversationSettings, parameters: KeyParameters) -> dict[str, Any]:
    return {**settings.fields, **_declared_fields(settings, parameters)}


def _declared_fields(settings: ConversationSettings, parameters: KeyParameters) -> Mapping[str, Any]:
    if not settings.options.declares:
        return {}
    asked = build_context_management(
        (tool.tool for tool in settings.preamble.tools),
        thinking=thinking_in_replies(thinking_mode(settings.model, parameters), parameters.betas),
        settings=settings.options.micro.declarative,
        capabilities=settings.capabilities,
        table=build_tool_table(settings.options.tools),
    )
    return {"context_management": asked} if asked else {}
