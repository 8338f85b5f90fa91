"""What an incident needs: a session file as somebody's program left it, a provider, and who listened.

The provider is the twin, which refuses what the API refuses; so an answer proves that the request was valid.
"""

import json
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from small_session import SmallSession, call, text

from everturn import Session, Tool
from everturn.decide.events import Event
from everturn.history.blocks import text_of
from everturn.session.upstream import RawResponse
from everturn.twin.testing import TwinForTests
from everturn.twin.upstream import make_twin_send

MODEL = "claude-haiku-4-5"
# Longer than the shortest prefix that is cached.
RULES = "Read a file before you change it, and say honestly what the tests have shown. " * 220
SUMMARY = "<summary>1. The login test was fixed in auth.py by waiting for the token; all is done.</summary>"
ASKS_FOR_A_SUMMARY = b"Write a summary of"
Fields = dict[str, Any]


def file_of(*lines: Fields | bytes) -> bytes:
    """A transcript, line by line; bytes stand as they are."""
    return b"".join(each if isinstance(each, bytes) else json.dumps(each).encode() + b"\n" for each in lines)


def worked(*calls: str, answered: Sequence[str] | None = None, model: str = MODEL) -> SmallSession:
    """A question, one reply with these calls, and the results of those that were answered."""
    session = SmallSession(model=model).human("Fix the login test.")
    session.reply("m1", *(call(each, "Read", file_path=f"/src/{each}.py") for each in calls), written=9_000)
    for each in calls if answered is None else answered:
        session.result(each, f"what {each} holds")
    return session


def said(session: SmallSession, *words: str) -> SmallSession:
    """Plain turns behind what is there."""
    for number, each in enumerate(words):
        session.human(each)
        session.reply(f"said{len(session.lines)}-{number}", text(f"Answer to {each}"), plain=9_000)
    return session


class Scene:
    """A folder with a session, the twin that answers it, every body that was sent, every event heard."""

    def __init__(self, folder: Path, twin: TwinForTests) -> None:
        self.folder, self.twin = folder, twin
        self.path = folder / "session.jsonl"
        self.heard: list[Event] = []
        self.sent: list[bytes] = []
        self.ids = count(1)
        # What happens to a body before the twin sees it; an incident puts its own here.
        self.before: Callable[[bytes], None] = lambda _: None
        self._provider = make_twin_send(twin.twin)

    def left(self, content: bytes | SmallSession) -> "Scene":
        """The file as it was found."""
        self.path.write_bytes(content.to_bytes() if isinstance(content, SmallSession) else content)
        return self

    def send(self, body: bytes, betas: Sequence[str]) -> RawResponse:
        self.sent.append(body)
        self.before(body)
        return self._provider(body, betas)

    def open(self, **how: Any) -> Session:
        defaults: Fields = {
            "model": MODEL,
            "system": RULES,
            "send": self.send,
            "clock": self.twin.twin.clock.now,
            "new_id": lambda: f"{next(self.ids):08d}",
            "listen": self.heard.append,
            "fsync": "never",
            "roots": [self.folder],
        }
        return Session.open(self.path, **{**defaults, **how})

    def talk(self, session: Session, turns: int = 3, words: int = 60) -> None:
        for turn in range(turns):
            self.twin.script(f"Answer {turn}: " + "as far as the results show. " * words)
            session.send(f"Question {turn} about the login test. " + "Look closely. " * words)

    def told(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.heard if isinstance(event, kind)]

    @property
    def messages(self) -> list[Fields]:
        """Those of the last request, decoded."""
        return json.loads(self.sent[-1])["messages"]

    @property
    def asked_for_summaries(self) -> int:
        return sum(ASKS_FOR_A_SUMMARY in body for body in self.sent)


def goes_on(scene: Scene, question: str = "Are you still there?", **how: Any) -> str:
    """The one thing that everybody in these stories wanted: to open the session again and be answered."""
    scene.twin.script("Still here.")
    with scene.open(**how) as session:
        assert session.send(question).text == "Still here."
        return words_in_view(session)


def words_in_view(session: Session) -> str:
    safe = session.conversation._tracker.flattener.flat()
    return "\n".join(text_of(block) for message in safe.messages for block in message.blocks)


def tool(name: str, run: Callable[..., Any] | None = None, *fields: str) -> Tool:
    schema = {"type": "object", "properties": {each: {"type": "string"} for each in fields}}
    return Tool({"name": name, "description": f"{name}s.", "input_schema": schema}, run)


def calls(name: str, **given: Any) -> Fields:
    """A scripted reply that calls a tool."""
    return {"content": [{"type": "tool_use", "name": name, "input": given}]}


def blocks_of(messages: Sequence[Fields], kind: str) -> list[Fields]:
    found = (block for each in messages for block in each["content"] if isinstance(each["content"], list))
    return [block for block in found if block["type"] == kind]
