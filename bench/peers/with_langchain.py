"""LangChain's two middlewares for long conversations, each with AnthropicPromptCachingMiddleware behind it.

`ContextEditingMiddleware([ClearToolUsesEdit()])` as it comes. `SummarizationMiddleware` has no trigger by
default: it gets 85 % of the window, the value of deepagents, which builds on it; the rest is as it comes. By
default it shows the summarizer no more than the last 4,000 tokens, from a person's message on; in a long run
of tool calls there is none, and the summary is one sentence that says so. So it takes part a second time
without that limit.
"""

import functools
import typing
from typing import Any

from langchain.agents.middleware import (
    ClearToolUsesEdit,
    ContextEditingMiddleware,
    SummarizationMiddleware,
)
from langchain.agents.middleware.types import ModelRequest
from langchain_anthropic import ChatAnthropic
from langchain_anthropic.middleware import AnthropicPromptCachingMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.messages import content as langchain_content
from langchain_core.outputs import ChatGeneration, ChatResult

from everturn.history.records import Usage
from peers.keeping import Json, Kind, Stage, Writer, blocks_in, words_in

_SHARE_OF_THE_WINDOW = 0.85
# Spelling a request looks up the type hints of every block anew, which takes most of the time of a session.
# None of that is measured, and the answer is always the same.
langchain_content.get_type_hints = functools.cache(typing.get_type_hints)  # type: ignore[attr-defined]


class _Messages:
    def __init__(self, stage: Stage) -> None:
        self._model = ChatAnthropic(
            model_name=stage.model, api_key="unused", profile={"max_input_tokens": stage.window}
        )
        self._head = SystemMessage(stage.head)
        self._caching = AnthropicPromptCachingMiddleware()
        self.messages: list[Any] = []

    def hear(self, message: Json, usage: Usage | None = None) -> None:
        self.messages += messages_of(message, usage)

    def _request(self) -> ModelRequest:
        return ModelRequest(model=self._model, messages=self.messages, system_message=self._head)

    def _sent(self, request: Any) -> Json:
        cached: Any = self._caching.wrap_model_call(request, lambda each: each)
        said = [cached.system_message, *cached.messages]
        return self._model._get_request_payload(said, **cached.model_settings)

    def overflowed(self) -> bool:
        return False


class ContextEditing(_Messages):
    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._middleware = ContextEditingMiddleware(edits=[ClearToolUsesEdit()])

    def decide(self) -> None:
        self._edited: Any = self._middleware.wrap_model_call(self._request(), lambda each: each)

    def body(self) -> Json:
        return self._sent(self._edited)


class Summarization(_Messages):
    def __init__(self, stage: Stage, **options: Any) -> None:
        super().__init__(stage)
        trigger: Any = (
            ("tokens", stage.compact_at) if stage.compact_at else ("fraction", _SHARE_OF_THE_WINDOW)
        )
        self._middleware = SummarizationMiddleware(
            self._model, trigger=trigger, summarizer=_Summarizer(writer=stage.writer), **options
        )

    def decide(self) -> None:
        update: Any = self._middleware.before_model({"messages": self.messages}, None)  # type: ignore[arg-type]
        if update is not None:
            # The first says that all others are removed.
            self.messages = update["messages"][1:]

    def body(self) -> Json:
        return self._sent(self._request())


class _Summarizer(BaseChatModel):
    """A chat model of LangChain's whose answer the writer gives."""

    writer: Writer

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        said = self.writer("\n".join(words_in(message.content) for message in messages))
        return ChatResult(generations=[ChatGeneration(message=AIMessage(said))])

    @property
    def _llm_type(self) -> str:
        return "summarizer"


def messages_of(message: Json, usage: Usage | None) -> list[Any]:
    """As the integration for this provider spells them: calls stand in the content and in `tool_calls`."""
    blocks = blocks_in(message)
    if message["role"] == "assistant":
        calls = [
            {"name": block["name"], "args": block["input"], "id": block["id"]}
            for block in blocks
            if block["type"] == "tool_use"
        ]
        said = {"model_provider": "anthropic"}
        return [AIMessage(blocks, tool_calls=calls, usage_metadata=_usage(usage), response_metadata=said)]
    results = [_result(block) for block in blocks if block["type"] == "tool_result"]
    said = [block for block in blocks if block["type"] != "tool_result"]
    return [*results, HumanMessage(said)] if said else results


def _result(block: Json) -> ToolMessage:
    status = "error" if block.get("is_error") else "success"
    return ToolMessage(block.get("content") or "", tool_call_id=block["tool_use_id"], status=status)


def _usage(usage: Usage | None) -> Any:
    if usage is None:
        return None
    given = usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens
    return {
        "input_tokens": given,
        "output_tokens": usage.output_tokens,
        "total_tokens": given + usage.output_tokens,
    }


PACKAGES = ("langchain", "langchain-core", "langchain-anthropic")
KINDS = (
    Kind("LangChain ContextEditing", ContextEditing, "AnthropicPromptCachingMiddleware"),
    Kind("LangChain Summarization", Summarization, "AnthropicPromptCachingMiddleware", compacts=True),
    Kind(
        "LangChain Summarization, untrimmed",
        functools.partial(Summarization, trim_tokens_to_summarize=None),
        "AnthropicPromptCachingMiddleware",
        compacts=True,
    ),
)
