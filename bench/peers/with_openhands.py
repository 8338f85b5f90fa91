"""OpenHands' summarizing condenser as its default agent has it: beyond 80 events half are summarized.

Events are appended to its `View`, the condenser decides, a condensation is applied as its agent does; its LLM
class and litellm spell the request, with its own prompt caching. The head is its system prompt. On an
overflow its agent asks for a condensation.
"""

import json
from types import SimpleNamespace
from typing import Any

from litellm.llms.anthropic.chat.transformation import AnthropicConfig
from openhands.sdk import LLM, LLMConvertibleEvent, Message, TextContent
from openhands.sdk.context.condenser import LLMSummarizingCondenser
from openhands.sdk.context.condenser.llm_summarizing_condenser import default_condenser
from openhands.sdk.context.view import View
from openhands.sdk.event import ActionEvent, MessageEvent, ObservationEvent, SystemPromptEvent
from openhands.sdk.event.condenser import Condensation, CondensationRequest
from openhands.sdk.llm import ImageContent, MessageToolCall, RedactedThinkingBlock, ThinkingBlock
from openhands.sdk.tool.schema import Observation
from pydantic import PrivateAttr

from everturn.history.records import Usage
from peers.keeping import Json, Kind, Stage, Writer, blocks_in, words_in

_PROVIDER = "anthropic/"
# More events than any session has.
_NEVER = 10**9
_MOST_CONDENSATIONS = 5


class _Writing(LLM):
    """Its LLM, whose answers the writer gives: only summaries are asked of it."""

    _writer: Writer = PrivateAttr()

    def generate(self, messages: list[Message], **kwargs: Any) -> Any:
        said = self._writer("\n".join(words_in(message.model_dump()["content"]) for message in messages))
        return SimpleNamespace(
            message=Message(role="assistant", content=[TextContent(text=said)]), id="summary"
        )


class Shown(Observation):
    """What a tool answered."""


class Condensing:
    def __init__(self, stage: Stage) -> None:
        model = _PROVIDER + stage.model
        self._llm = LLM(model=model, api_key="unused", max_input_tokens=stage.window, usage_id="agent")
        writing = _Writing(model=model, api_key="unused", max_input_tokens=stage.window, usage_id="condenser")
        writing._writer = stage.writer
        self._condenser = default_condenser(writing)
        if stage.only_watches:
            self._condenser = LLMSummarizingCondenser(llm=writing, max_size=_NEVER)
        self._view = View()
        head = SystemPromptEvent(system_prompt=TextContent(text=stage.head), tools=[])
        self._view.append_event(head)
        self._asks = bool(stage.compact_at)
        self._actions: dict[str, tuple[str, str]] = {}
        self._replies = 0

    def hear(self, message: Json, usage: Usage | None = None) -> None:
        events = self._reply(message) if message["role"] == "assistant" else self._answer(message)
        for event in events:
            self._view.append_event(event)

    def decide(self) -> None:
        if self._asks:
            self._view.append_event(CondensationRequest())
        for _ in range(_MOST_CONDENSATIONS):
            done = self._condenser.condense(self._view, agent_llm=self._llm)
            if not isinstance(done, Condensation):
                break
            self._view.append_event(done)

    def body(self) -> Json:
        messages = LLMConvertibleEvent.events_to_messages(list(self._view.events))
        said: Any = self._llm.format_messages_for_llm(messages)
        return AnthropicConfig().transform_request(self._llm.model, said, {"max_tokens": 8_000}, {}, {})

    def overflowed(self) -> bool:
        before = len(self._view)
        self._view.append_event(CondensationRequest())
        self.decide()
        return len(self._view) < before

    # ── its events ───────────────────────────────────────────────────────────────────────────────

    def _reply(self, message: Json) -> list[Any]:
        """One event for each call; what was said and thought stands with the first of them."""
        self._replies += 1
        blocks = blocks_in(message)
        said = [TextContent(text=block["text"]) for block in blocks if block["type"] == "text"]
        thought = [_thought(block) for block in blocks if "thinking" in block["type"]]
        calls = [block for block in blocks if block["type"] == "tool_use"]
        if not calls:
            spoken = Message(role="assistant", content=said, thinking_blocks=thought)
            return [MessageEvent(source="agent", llm_message=spoken)]
        return [
            self._action(block, said if not at else [], thought if not at else [])
            for at, block in enumerate(calls)
        ]

    def _action(self, block: Json, said: list[Any], thought: list[Any]) -> ActionEvent:
        called = MessageToolCall(
            id=block["id"], name=block["name"], arguments=json.dumps(block["input"]), origin="completion"
        )
        event = ActionEvent(
            thought=said,
            thinking_blocks=thought,
            tool_name=block["name"],
            tool_call_id=block["id"],
            tool_call=called,
            llm_response_id=f"reply-{self._replies}",
        )
        self._actions[block["id"]] = block["name"], event.id
        return event

    def _answer(self, message: Json) -> list[Any]:
        blocks = blocks_in(message)
        found: list[Any] = [self._result(block) for block in blocks if block["type"] == "tool_result"]
        said = [_content(block) for block in blocks if block["type"] != "tool_result"]
        if said:
            found.append(MessageEvent(source="user", llm_message=Message(role="user", content=said)))
        return found

    def _result(self, block: Json) -> ObservationEvent:
        name, action = self._actions.get(block["tool_use_id"], ("tool", ""))
        # Its caching needs at least one part, also of an empty result.
        parts = blocks_in({"content": block.get("content") or ""})
        shown = Shown(content=[_content(part) for part in parts])
        return ObservationEvent(
            observation=shown, action_id=action, tool_name=name, tool_call_id=block["tool_use_id"]
        )


def _content(block: Json) -> Any:
    source = block.get("source")
    if isinstance(source, dict) and source.get("type") == "base64":
        return ImageContent(image_urls=[f"data:{source['media_type']};base64,{source['data']}"])
    return TextContent(text=words_in({**block, "type": ""}))


def _thought(block: Json) -> Any:
    if block["type"] == "redacted_thinking":
        return RedactedThinkingBlock(data=block["data"])
    return ThinkingBlock(thinking=block["thinking"], signature=block.get("signature"))


def hasten() -> None:
    from peers.with_litellm import hasten as count_once

    count_once()


PACKAGES = ("openhands-sdk", "litellm")
KINDS = (Kind("OpenHands condenser", Condensing, "its LLM class: head and last message", compacts=True),)
