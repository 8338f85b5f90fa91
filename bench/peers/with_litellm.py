"""litellm's two ways of making a conversation smaller: `trim_messages` and `compress`.

`trim_messages` takes messages in OpenAI's shape, the head among them, down to 75 % of the window, its default
ratio, and forgets it all before the next call; litellm's own transformation spells them for the API.
`compress` takes messages of this API and replaces those that matter least to the last question by stubs. Its
default trigger is all of a usual window; it gets the same 75 %, less the head, which it does not see. It
ranks all messages before every call, which takes seconds: it plays the shortest sessions only.
"""

import functools
import json
from typing import Any

import litellm
from litellm.litellm_core_utils import token_counter
from litellm.litellm_core_utils.prompt_templates.factory import anthropic_messages_pt
from litellm.utils import trim_messages

from everturn.history.records import Usage
from peers.keeping import Json, Kind, Stage, blocks_in, marked_at_the_end, marked_head, words_in

_RATIO = 0.75


class _Messages:
    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.messages: list[Json] = []

    def overflowed(self) -> bool:
        return False

    def _with_markers(self, messages: list[Json]) -> Json:
        sent = marked_at_the_end(messages) if messages else []
        return {"system": marked_head(self._stage.head), "messages": sent}


class Trimming(_Messages):
    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self.messages = [{"role": "system", "content": stage.head}]

    def hear(self, message: Json, usage: Usage | None = None) -> None:
        self.messages += _as_openai(message)

    def decide(self) -> None:
        most = self._stage.compact_at or int(self._stage.window * _RATIO)
        self._sent: Any = trim_messages(self.messages, self._stage.model, max_tokens=most)

    def body(self) -> Json:
        said = [message for message in self._sent if message["role"] != "system"]
        made: Any = anthropic_messages_pt(said, self._stage.model, "anthropic")
        return self._with_markers(made)


class Compressing(_Messages):
    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        head = litellm.token_counter(stage.model, text=stage.head)
        self._trigger = stage.compact_at or int(stage.window * _RATIO) - head

    def hear(self, message: Json, usage: Usage | None = None) -> None:
        self.messages.append(message)

    def decide(self) -> None:
        done = litellm.compress(
            self.messages,
            self._stage.model,
            call_type="anthropic_messages",
            compression_trigger=self._trigger,
        )
        self._sent: Any = done["messages"]

    def body(self) -> Json:
        return self._with_markers(self._sent)


def hasten() -> None:
    """For sessions that are played, not timed: what was counted once is not counted again. It tokenizes the
    whole conversation several times before every call."""
    counting = token_counter._get_exact_count_function

    @functools.cache
    def counting_once(model: Any, tokenizer: Any = None) -> Any:
        return functools.lru_cache(maxsize=200_000)(counting(model, tokenizer))

    token_counter._get_exact_count_function = counting_once


def _as_openai(message: Json) -> list[Json]:
    blocks = blocks_in(message)
    if message["role"] == "assistant":
        said: Json = {"role": "assistant", "content": _texts(blocks)}
        thinking = [block for block in blocks if "thinking" in block["type"]]
        calls = [_call(block) for block in blocks if block["type"] == "tool_use"]
        extra = {"thinking_blocks": thinking, "tool_calls": calls}
        return [said | {name: value for name, value in extra.items() if value}]
    results = [
        {
            "role": "tool",
            "tool_call_id": block["tool_use_id"],
            "content": words_in(block.get("content") or ""),
        }
        for block in blocks
        if block["type"] == "tool_result"
    ]
    spoken = [block for block in blocks if block["type"] != "tool_result"]
    return [*results, {"role": "user", "content": _texts(spoken)}] if spoken else results


def _texts(blocks: list[Json]) -> str:
    return "\n\n".join(block["text"] for block in blocks if block["type"] == "text")


def _call(block: Json) -> Json:
    given = {"name": block["name"], "arguments": json.dumps(block["input"])}
    return {"id": block["id"], "type": "function", "function": given}


PACKAGES = ("litellm",)
_CACHES = "cache_control_injection_points on the head and the last message"
KINDS = (
    Kind("litellm trim_messages", Trimming, _CACHES, compacts=True),
    Kind("litellm compress", Compressing, _CACHES, compacts=True, most_sessions=4),
)
