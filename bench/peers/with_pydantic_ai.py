"""pydantic-ai with its harness: its compactions, with the Caching capability.

`ClearToolResults`, `SummarizingCompaction(max_fraction=0.9)`, and the tiers that its README recommends: clear
all but three results, then summarize, down to 120,000 tokens. What a compaction leaves is what the next
request begins with, as in a run of its `Agent`. The harness asks for exactly one version of pydantic-ai, and
that matters: with a newer one its edits are forgotten after every request.
"""

import asyncio
import base64
from typing import Any

from pydantic_ai import BinaryContent, RunContext
from pydantic_ai._agent_graph import _clean_message_history
from pydantic_ai.capabilities import Caching
from pydantic_ai.messages import (
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestContext, ModelRequestParameters
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.usage import RequestUsage, RunUsage
from pydantic_ai_harness.compaction import ClearToolResults, SummarizingCompaction, TieredCompaction

from everturn.history.records import Usage
from peers.keeping import Json, Kind, Stage, blocks_in, words_in

# What the README takes in its examples.
_FRACTION = 0.9
_TARGET = 120_000
# It has no default; that of the API's own edit and of LangChain's.
_CLEAR_AT = 100_000
_KEPT_PAIRS = 3
_KEPT_MESSAGES = 20
_NAME = "anthropic"


class Kept:
    """One conversation under one strategy."""

    def __init__(self, stage: Stage, strategy: Any) -> None:
        self._head = stage.head
        self._strategy = strategy
        self._model = AnthropicModel(stage.model, provider=AnthropicProvider(api_key="unused"))
        self._settings = Caching().get_model_settings()
        self._loop = asyncio.new_event_loop()
        self._tools: dict[str, str] = {}
        self.messages: list[Any] = []

    def hear(self, message: Json, usage: Usage | None = None) -> None:
        if message["role"] == "assistant":
            parts = [part for block in blocks_in(message) for part in self._said(block)]
            self.messages.append(
                ModelResponse(
                    parts, usage=_usage(usage), model_name=self._model.model_name, provider_name=_NAME
                )
            )
        else:
            parts = [self._asked(block) for block in blocks_in(message)]
            self.messages.append(ModelRequest(parts, instructions=self._head))

    def _said(self, block: Json) -> list[Any]:
        match block["type"]:
            case "text":
                return [TextPart(block["text"])]
            case "thinking":
                return [
                    ThinkingPart(block["thinking"], signature=block.get("signature"), provider_name=_NAME)
                ]
            case "redacted_thinking":
                return [ThinkingPart("", id=block["type"], signature=block["data"], provider_name=_NAME)]
            case "tool_use":
                self._tools[block["id"]] = block["name"]
                return [ToolCallPart(block["name"], block["input"], tool_call_id=block["id"])]
            case _:
                return [TextPart(words_in(block))]

    def _asked(self, block: Json) -> Any:
        if block["type"] != "tool_result":
            return UserPromptPart([_content(block)])
        content, call = block.get("content") or "", block["tool_use_id"]
        shown = content if isinstance(content, str) else [_content(part) for part in content]
        if isinstance(shown, list) and all(isinstance(part, str) for part in shown):
            shown = "\n".join(shown)
        return ToolReturnPart(self._tools.get(call, "tool"), shown, tool_call_id=call)

    def decide(self) -> None:
        request = ModelRequestContext(
            model=self._model,
            messages=list(self.messages),
            model_settings=self._settings,
            model_request_parameters=ModelRequestParameters(),
        )
        context = RunContext(deps=None, model=self._model, usage=RunUsage(), messages=self.messages)
        done = self._loop.run_until_complete(self._strategy.before_model_request(context, request))
        self.messages = list(done.messages)

    def body(self) -> Json:
        messages = _clean_message_history(list(self.messages), repair_last_response=True)
        settings, parameters = self._model.prepare_request(self._settings, ModelRequestParameters())
        messages = self._model.prepare_messages(messages, parameters)
        made = self._loop.run_until_complete(
            self._model._prepare_messages_create(messages, settings or {}, parameters)
        )
        body = {"system": made.system_prompt, "messages": made.anthropic_messages}
        return {**body, "cache_control": made.auto_cache_control} if made.auto_cache_control else body

    def overflowed(self) -> bool:
        return False


def _content(block: Json) -> Any:
    source = block.get("source")
    if isinstance(source, dict) and source.get("type") == "base64":
        return BinaryContent(base64.b64decode(source["data"]), media_type=source["media_type"])
    return words_in({**block, "type": ""})


def _usage(usage: Usage | None) -> RequestUsage:
    if usage is None:
        return RequestUsage()
    return RequestUsage(
        input_tokens=usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens,
        cache_read_tokens=usage.cache_read_input_tokens,
        cache_write_tokens=usage.cache_creation_input_tokens,
        output_tokens=usage.output_tokens,
    )


def _summarizer(stage: Stage) -> FunctionModel:
    def answer(messages: list[Any], info: Any) -> ModelResponse:
        said = (part.content for message in messages for part in message.parts)
        told = [info.instructions or "", *map(words_in, said)]
        return ModelResponse([TextPart(stage.writer("\n".join(told)))])

    return FunctionModel(answer)


def _summarizing(stage: Stage, **options: Any) -> SummarizingCompaction:
    return SummarizingCompaction(model=_summarizer(stage), keep_messages=_KEPT_MESSAGES, **options)


def summarizing(stage: Stage) -> Kept:
    at: Any = {"max_tokens": stage.compact_at} if stage.compact_at else {}
    trigger = at or {"max_fraction": _FRACTION, "context_window": stage.window}
    return Kept(stage, _summarizing(stage, **trigger))


def tiered(stage: Stage) -> Kept:
    tiers = [ClearToolResults(max_tokens=1, keep_pairs=_KEPT_PAIRS), _summarizing(stage, max_messages=1)]
    strategy = TieredCompaction(tiers=tiers, target_tokens=stage.compact_at or _TARGET)
    return Kept(stage, strategy)


def clearing(stage: Stage) -> Kept:
    return Kept(stage, ClearToolResults(max_tokens=_CLEAR_AT, keep_pairs=_KEPT_PAIRS))


PACKAGES = ("pydantic-ai-slim", "pydantic-ai-harness")
_CACHES = "Caching capability"
KINDS = (
    Kind("pydantic-ai ClearToolResults", clearing, _CACHES),
    Kind("pydantic-ai Summarizing", summarizing, _CACHES, compacts=True),
    # In the table of turns it would have to summarize, so it is not timed.
    Kind("pydantic-ai Tiered", tiered, _CACHES, compacts=True, is_timed=False),
)
