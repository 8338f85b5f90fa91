"""Conversations by chance, in which everything changes that may change between two requests (CP-38).

A seed decides the model, the mode of thinking, tools, system blocks, strategies, sizes, and when somebody
compacts, undoes or reopens. The twin checks every request as the API does.
"""

import base64
import random
from pathlib import Path
from typing import Any

from surfaces.desk import HAIKU, SUMMARY, Desk, Json, call, result, text, tool

import everturn
from everturn import CompactionSkipped, Session
from everturn.measure.model_table import MODELS
from everturn.twin.testing import TwinForTests

TESTED = (HAIKU, "claude-opus-4-5", "claude-opus-5", "claude-opus-5-5")
THINKING = {model.id: sorted(model.thinking) for model in MODELS if model.id in TESTED}
# Opus 4.5 and older have no compaction of the provider's; there the next strategy is used.
STRATEGIES = (("fork",), ("direct",), ("extractive",), ("provider", "extractive"), ("fork", "direct"))
PICTURE = base64.b64encode(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\4\0\0\0\3\0\x08\2\0\0\0" + b"\0" * 40).decode()
NAMES = ("Read", "Grep", "Bash")
# Small enough that a few messages fill it; the twin has the model's own window.
WINDOW = 30_000


def image() -> Json:
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PICTURE}}


class Chance:
    """What the seed decides about one request."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.strategies = self.random.choice(STRATEGIES)
        self.model, self.thinking, self.tools = HAIKU, "disabled", NAMES
        self.system: list[Json] = []
        self.calls = 0
        self.change(1.0)

    def change(self, chance: float) -> None:
        """Each part of the request that is not a message, with this chance."""
        if self.random.random() < chance / 2:
            self.model = self.random.choice(TESTED)
        modes = THINKING[self.model]
        if self.thinking not in modes or self.random.random() < chance:
            self.thinking = self.random.choice(modes)
        if self.random.random() < chance:
            self.tools = NAMES[: self.random.randint(1, len(NAMES))]
        if self.random.random() < chance:
            self.system = [text(f"Rule {n}: be brief.") for n in range(self.random.randint(1, 3))]

    @property
    def thinking_field(self) -> Json:
        budget = {"budget_tokens": 1_024} if self.thinking == "enabled" else {}
        return {"type": self.thinking, **budget}

    def message(self) -> list[Json]:
        said = [text(f"Message {self.random.random()}. " + "Look at it. " * self.size())]
        return [*said, image()] if self.random.random() < 0.2 else said

    def result(self) -> Any:
        words = "line of code\n" * self.size()
        return [text(words), image()] if self.random.random() < 0.2 else words

    def size(self) -> int:
        return self.random.choice((5, 5, 200, 800, 2_000))

    def reply(self, *, begins_loop: bool = False) -> Json:
        """Thinking comes first where there is any; a loop may go on without it."""
        content: list[Json] = []
        if self.thinking != "disabled" and (begins_loop or self.random.random() < 0.5):
            content.append({"type": "thinking", "thinking": "Let me see."})
        if self.random.random() < 0.5:
            content.append(text("Well. " * self.size()))
        for _ in range(self.random.choice((0, 1, 1, 2))):
            self.calls += 1
            name = self.random.choice(self.tools)
            content.append(call(f"toolu_{self.calls}", name, file_path=f"{self.calls}.py"))
        is_empty = all(block["type"] == "thinking" for block in content)
        return {"content": [*content, text("Done.")] if is_empty else content}


class RandomSession:
    """A `Session` that is reopened with other options, compacted in every form, and undone."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.chance = Chance(seed)
        self.twin = TwinForTests()
        self.desk = Desk(folder, self.twin)
        self.events = self.desk.events
        self.undone = 0
        drop_replies(self.twin)

    def run(self, steps: int) -> None:
        session = self.open()
        for _ in range(steps):
            if self.chance.random.random() < 0.3:
                session.close()
                self.chance.change(0.5)
                session = self.open()
            self.step(session)
        session.close()
        self.twin.close()

    def open(self) -> Session:
        chance = self.chance
        tools = [tool(name, lambda given: chance.result()) for name in chance.tools]
        return self.desk.open(
            model=chance.model, thinking=chance.thinking_field, tools=tools, system=words_of(chance.system),
            window=WINDOW, compact={"strategies": chance.strategies}, max_tokens=4_000,
        )  # fmt: skip

    def step(self, session: Session) -> None:
        chance = self.chance
        does = chance.random.choice(("send", "send", "send", "compact", "undo"))
        if does == "undo":
            self.undone += not isinstance(session.undo(), CompactionSkipped)
        elif does == "compact" and (records := session.conversation.log.view.records):
            at = chance.random.choice(records).uuid
            where = chance.random.choice(({}, {"up_to": at}, {"from_": at}))
            session.compact(**where)
        self.twin.script(*(chance.reply() for _ in range(3)), "That is all.")
        session.send(chance.message(), rounds=chance.random.choice((0, 1, 9)))
        # A shorter loop did not need all of them.
        drop_replies(self.twin)


class RandomCaller:
    """A program with its own list of messages, the SDK and the middleware; it changes what it asks for
    between its turns, as the API allows."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.chance = Chance(seed)
        self.twin = TwinForTests()
        self.folder = folder
        self.events: list[Any] = []
        self.messages: list[Json] = []
        self.open()
        drop_replies(self.twin)

    def open(self) -> None:
        self.middleware = everturn.middleware(
            config=None, folder=self.folder, clock=self.twin.twin.clock.now, listen=self.events.append,
            window=WINDOW, compact={"strategies": self.chance.strategies},
        )  # fmt: skip
        self.client = self.twin.client(middleware=[self.middleware], max_retries=0)

    def run(self, turns: int) -> None:
        for _ in range(turns):
            self.chance.change(0.3)
            does = self.chance.random.choice(("nothing", "nothing", "compact", "restart"))
            if does == "restart":
                self.middleware.close()
                self.open()
            elif does == "compact" and self.middleware.conversations:
                self.middleware.compact()
            self.turn()
        self.middleware.close()
        self.twin.close()

    def turn(self) -> None:
        said: list[Json] = self.chance.message()
        for rounds in range(6):
            self.messages.append({"role": "user", "content": said})
            self.twin.script("That is all." if rounds == 5 else self.chance.reply(begins_loop=not rounds))
            content = self.ask()
            drop_replies(self.twin)
            self.messages.append({"role": "assistant", "content": content})
            calls = [block for block in content if block["type"] == "tool_use"]
            if not calls:
                return
            said = [result(block["id"], self.chance.result()) for block in calls]
            said += [text("Mind the time.")] if self.chance.random.random() < 0.2 else []

    def ask(self) -> list[Json]:
        chance = self.chance
        reply = self.client.messages.create(
            model=chance.model, max_tokens=4_000, messages=self.messages, system=chance.system,
            tools=[tool(name).definition for name in chance.tools], thinking=chance.thinking_field,
        )  # fmt: skip
        return [block.model_dump(exclude_none=True) for block in reply.content]


def words_of(blocks: list[Json]) -> str:
    return "\n".join(block["text"] for block in blocks)


def drop_replies(twin: TwinForTests) -> None:
    """No replies are left but summaries, whenever one is asked for."""
    twin.twin.speaker.clear()
    twin.script(*({"content": SUMMARY, "when": "<summary>"} for _ in range(50)))
