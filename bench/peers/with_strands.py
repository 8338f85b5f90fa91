"""Strands' conversation managers, on an Agent of its own, with its automatic cache points.

`SlidingWindowConversationManager` is its default (40 messages), applied when the agent's loop ends; and
`SummarizingConversationManager` with `proactive_compression=True` (70 % of the window). Both also answer an
overflow. Before a call we do what its event loop does: estimate the input, and run the hooks.
"""

import asyncio
import base64
from typing import Any

from strands import Agent
from strands.agent.conversation_manager import (
    SlidingWindowConversationManager,
    SummarizingConversationManager,
)
from strands.event_loop.event_loop import _estimate_input_tokens
from strands.hooks import BeforeModelCallEvent
from strands.models import CacheConfig
from strands.models.anthropic import AnthropicModel
from strands.types.exceptions import ContextWindowOverflowException

from everturn.history.records import Usage
from peers.keeping import Json, Kind, Stage, Writer, blocks_in, words_in


class _Model(AnthropicModel):
    """Its model for this provider, whose answers the writer gives: only summaries are ever asked of it."""

    writer: Writer

    async def stream(self, messages: Any, tool_specs: Any = None, system_prompt: Any = None, **kwargs: Any):
        said = self.writer("\n".join((system_prompt or "", words_in(messages))))
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockStart": {"start": {}}}
        yield {"contentBlockDelta": {"delta": {"text": said}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn"}}


class Managed:
    def __init__(self, stage: Stage, manager: Any) -> None:
        self._model = _Model(
            client_args={"api_key": "unused"},
            model_id=stage.model,
            max_tokens=8_000,
            context_window_limit=stage.window,
            cache_config=CacheConfig(strategy="anthropic", system_prompt_ttl=True, tools_ttl=True),
        )
        self._model.writer = stage.writer
        self._agent = Agent(
            model=self._model,
            system_prompt=stage.head,
            conversation_manager=manager,
            callback_handler=None,
            load_tools_from_directory=False,
        )
        self._manager = manager
        self._compacts_now = bool(stage.compact_at)
        self._loop = asyncio.new_event_loop()

    def hear(self, message: Json, usage: Usage | None = None) -> None:
        blocks = [_content(block) for block in blocks_in(message)]
        said: Any = {"role": message["role"], "content": [block for block in blocks if block]}
        if usage is not None:
            said["metadata"] = {"usage": _usage(usage)}
        self._agent.messages.append(said)
        if message["role"] == "assistant" and not any("toolUse" in block for block in said["content"]):
            # The loop of the agent ends here.
            self._manager.apply_management(self._agent)

    def decide(self) -> None:
        if self._compacts_now:
            self._manager.reduce_context(self._agent)
            return
        self._loop.run_until_complete(self._before_a_call())

    async def _before_a_call(self) -> None:
        tokens = await _estimate_input_tokens(self._agent)
        event = BeforeModelCallEvent(agent=self._agent, invocation_state={}, projected_input_tokens=tokens)
        await self._agent.hooks.invoke_callbacks_async(event)

    def body(self) -> Json:
        made = self._model.format_request(self._agent.messages, None, self._agent.system_prompt)
        return {"system": made["system"], "messages": made["messages"]}

    def overflowed(self) -> bool:
        try:
            problem = ContextWindowOverflowException("prompt is too long")
            self._manager.reduce_context(self._agent, problem)
        except ContextWindowOverflowException:
            return False
        return True


def _content(block: Json) -> Any:
    match block["type"]:
        case "text":
            return {"text": block["text"]}
        case "thinking":
            return {"reasoningContent": {"reasoningText": _thought(block)}}
        case "redacted_thinking":
            return {"reasoningContent": {"redactedContent": base64.b64decode(block["data"])}}
        case "tool_use":
            used = {"toolUseId": block["id"], "name": block["name"], "input": block["input"]}
            return {"toolUse": used}
        case "tool_result":
            return {"toolResult": _result(block)}
        case "image":
            source = block["source"]
            kind = source["media_type"].rpartition("/")[2]
            return {"image": {"format": kind, "source": {"bytes": base64.b64decode(source["data"])}}}
        case _:
            return {"text": words_in(block)}


def _thought(block: Json) -> Json:
    return {"text": block["thinking"], "signature": block.get("signature")}


def _result(block: Json) -> Json:
    # An empty result has no parts: a text without a character would be refused.
    parts = blocks_in({"content": block.get("content") or []})
    content = [_content(part) for part in parts]
    status = "error" if block.get("is_error") else "success"
    return {"toolUseId": block["tool_use_id"], "content": content, "status": status}


def _usage(usage: Usage) -> Json:
    given = usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens
    return {
        "inputTokens": usage.input_tokens,
        "cacheReadInputTokens": usage.cache_read_input_tokens,
        "cacheWriteInputTokens": usage.cache_creation_input_tokens,
        "outputTokens": usage.output_tokens,
        "totalTokens": given + usage.output_tokens,
    }


PACKAGES = ("strands-agents",)
_CACHES = "CacheConfig: system, tools, last user message"
KINDS = (
    Kind("strands SlidingWindow", lambda stage: Managed(stage, SlidingWindowConversationManager()), _CACHES),
    Kind(
        "strands Summarizing",
        lambda stage: Managed(stage, SummarizingConversationManager(proactive_compression=True)),
        _CACHES,
        compacts=True,
    ),
)
