"""Random conversations as messages, and the small heads they are sent with."""

import random
from collections.abc import Sequence
from typing import Any

from everturn.history.blocks import Block, block_from_fields, result_block, text_block
from everturn.history.messages import Message
from everturn.measure.model_table import Model, find_model
from everturn.measure.outline import Preamble
from everturn.view.key_parameters import KeyParameters, TtlChoice
from everturn.wire.anthropic import tool_block

PARAMETERS = KeyParameters(TtlChoice("5m", "a test"))


def model(name: str = "claude-opus-5") -> Model:
    found = find_model(name)
    assert found is not None
    return found


def tool(name: str, **more: Any) -> Block:
    return tool_block(
        {"name": name, "description": f"{name} " * 9, "input_schema": {"type": "object"}, **more}
    )


def web(name: str = "web_search") -> Block:
    return tool_block({"type": "web_search_20260209", "name": name})


def user(*blocks: Block | str) -> Message:
    return Message("user", tuple(text_block(b) if isinstance(b, str) else b for b in blocks))


def assistant(*blocks: Block | str) -> Message:
    return Message("assistant", tuple(text_block(b) if isinstance(b, str) else b for b in blocks))


def call(id: str, tool: str = "Read") -> Block:
    return block_from_fields({"type": "tool_use", "id": id, "name": tool, "input": {"path": f"{id}.py"}})


def thinking(words: str) -> Block:
    return block_from_fields({"type": "thinking", "thinking": words, "signature": f"signed {words}"})


def image(name: str = "aGVq") -> Block:
    source = {"type": "base64", "media_type": "image/png", "data": name}
    return block_from_fields({"type": "image", "source": source})


def pictured(call: str) -> Block:
    content = [{"type": "text", "text": "a shot"}, {"type": "image", "source": {"type": "url", "url": "u"}}]
    return block_from_fields({"type": "tool_result", "tool_use_id": call, "content": content})


def document(*, cited: bool) -> Block:
    source = {"type": "text", "media_type": "text/plain", "data": "words of a document"}
    more = {"citations": {"enabled": True}} if cited else {}
    return block_from_fields({"type": "document", "source": source, **more})


HEAD = Preamble(
    (tool("Bash"), tool("Read")), (text_block("the static part " * 9), text_block("the dynamic part")), (0, 1)
)


class Talk:
    """A conversation that grows turn by turn, of every kind of block that the engine sends.

    `pictures` is the chance of an image or document; each new one invalidates all messages (api-facts 1.6).
    """

    def __init__(self, rng: random.Random, *, pictures: float = 0.1) -> None:
        self.rng = rng
        self.pictures = pictures
        self.messages: list[Message] = [user("begin")]
        self._named = 0

    def grow(self, positions: int) -> None:
        """At least so many blocks more: replies with calls, their results, words of the user at the end."""
        start = size(self.messages)
        while size(self.messages) < start + positions:
            calls = [self._name() for _ in range(self.rng.choice((0, 0, 1, 1, 2, 7)))]
            self.messages.append(assistant(*self._said(calls)))
            self.messages.append(user(*(self._result(name) for name in calls), *self._words(bool(calls))))

    def burst(self, calls: int) -> None:
        """One reply with many calls at once, and their results."""
        names = [self._name() for _ in range(calls)]
        self.messages.append(assistant(*map(call, names)))
        self.messages.append(user(*(result_block(name, f"found {name}") for name in names)))

    def _said(self, calls: Sequence[str]) -> list[Block]:
        thought = [thinking(self._name())] if self.rng.random() < 0.5 else []
        words = [text_block(self._name())] if not calls or self.rng.random() < 0.5 else []
        return [*thought, *words, *map(call, calls)]

    def _result(self, name: str) -> Block:
        return (
            pictured(name)
            if self.rng.random() < self.pictures
            else result_block(name, "x" * self.rng.randrange(90))
        )

    def _words(self, answered: bool) -> list[Block]:
        more = self.rng.choice((0, 0, 1, 3)) if answered else self.rng.choice((1, 1, 2, 9))
        made = [text_block(self._name()) for _ in range(more)]
        if self.rng.random() < self.pictures:
            made.append(self.rng.choice((image(self._name()), document(cited=self.rng.random() < 0.3))))
        return made

    def _name(self) -> str:
        self._named += 1
        return f"n{self._named}"


def size(messages: Sequence[Message]) -> int:
    return sum(len(message.blocks) for message in messages)
