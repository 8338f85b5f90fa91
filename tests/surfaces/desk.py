"""A program that uses everturn against a twin: what it sends, what it hears, and what is on disk."""

import json
import os
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import anthropic
from click.testing import CliRunner, Result

from everturn import Session, Tool
from everturn.chat import start
from everturn.chat.model_connection import ModelConnection
from everturn.cli import main
from everturn.session.upstream import RawResponse
from everturn.twin.testing import TwinForTests
from everturn.twin.upstream import make_twin_send

HAIKU = "claude-haiku-4-5"
# Longer than the shortest prefix that is cached.
RULES = "Read a file before you change it, and say honestly what the tests have shown. " * 220
SUMMARY = "<summary>1. The login test in auth.py was fixed by waiting for the token; it is done.</summary>"
# One minute before the twin's clock begins.
BEFORE = "2026-11-14T23:59:00.000Z"

Json = dict[str, Any]


def text(words: str, **more: Any) -> Json:
    return {"type": "text", "text": words, **more}


def call(name: str, tool: str = "Read", **given: Any) -> Json:
    return {"type": "tool_use", "id": name, "name": tool, "input": given}


def result(name: str, words: Any = "done", **more: Any) -> Json:
    return {"type": "tool_result", "tool_use_id": name, "content": words, **more}


def user_line(content: str | list[Json], **more: Any) -> Json:
    return {"type": "user", "message": {"role": "user", "content": content}, **more}


def assistant_line(*content: Json, id: str = "msg_1", usage: Json | None = None, **more: Any) -> Json:
    message = {"id": id, "type": "message", "role": "assistant", "model": HAIKU, "content": list(content)}
    return {"type": "assistant", "message": {**message, "usage": usage}, **more}


def usage(plain: int = 0, written: int = 0, read: int = 0, output: int = 0) -> Json:
    return {
        "input_tokens": plain,
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": read,
        "output_tokens": output,
    }


def tool(name: str, run: Any = None, **properties: Any) -> Tool:
    properties = properties or {"file_path": {"type": "string"}}
    schema = {"type": "object", "properties": properties}
    return Tool({"name": name, "description": f"{name} does it.", "input_schema": schema}, run)


def texts(message: Json) -> list[str]:
    """The words of a message that was sent, block by block; results with theirs."""
    found = [block.get("text", block.get("content", "")) for block in message["content"]]
    return [each if isinstance(each, str) else json.dumps(each) for each in found]


def words(body: Json) -> str:
    """Everything that a request says in its messages."""
    return "\n".join(part for message in body["messages"] for part in texts(message))


def marked(body: Json) -> list[str]:
    """Where the breakpoints of a request are: `tools 0`, `system 1`, `messages 2/0`."""
    found = [f"tools {at}" for at, each in enumerate(body.get("tools", [])) if "cache_control" in each]
    found += [f"system {at}" for at, each in enumerate(body.get("system", [])) if "cache_control" in each]
    for at, message in enumerate(body["messages"]):
        blocks = enumerate(message["content"])
        found += [f"messages {at}/{place}" for place, block in blocks if "cache_control" in block]
    return found


class Recorder(anthropic.Middleware):
    """Keeps the body of every request that passes."""

    def __init__(self, bodies: list[Json]) -> None:
        self._bodies = bodies

    def handle(self, request: Any, call_next: Any) -> Any:
        self._bodies.append(json.loads(json.dumps(request.json)))
        return call_next(request)


class Desk:
    """One folder, one transcript, one twin."""

    def __init__(self, folder: Path, twin: TwinForTests, model: str = HAIKU) -> None:
        self.folder, self.twin, self.model = folder, twin, model
        self.path = folder / "session.jsonl"
        self.bodies: list[Json] = []
        self.events: list[Any] = []

    def recorder(self) -> anthropic.Middleware:
        """Stands last in a client's chain and keeps every body that passes."""
        return Recorder(self.bodies)

    def open(self, **options: Any) -> Session:
        defaults: Json = {
            "client": self.twin.client(middleware=[self.recorder()], max_retries=0),
            "model": self.model,
            "system": RULES,
            "clock": self.twin.twin.clock.now,
            "listen": self.events.append,
            "store.fsync": "never",
            "roots": [self.folder],
        }
        return Session.open(self.path, **{**defaults, **options})

    def talk(self, session: Session, turns: int = 3, size: int = 60) -> None:
        for turn in range(turns):
            self.twin.script(f"Answer {turn}: " + "as far as the results show. " * size)
            session.send(f"Question {turn} about the login test. " + "Look closely. " * size)

    def use_tool(self, session: Session, times: int, name: str = "Read", first: int = 0) -> None:
        """Turns in which the model calls one tool, which the session runs."""
        for at in range(first, first + times):
            self.twin.script({"content": [call(f"toolu_{name}_{at}", name, file_path=f"{at}.py")]})
            self.twin.script(f"Looked at {at}.")
            session.send(f"Look at {at}.")

    def heard(self, name: str) -> list[Any]:
        """The events of a kind, by the name of their class."""
        return [event for event in self.events if type(event).__name__ == name]

    def write(self, *lines: Json) -> None:
        """A transcript that another program left, each line after the one before it."""
        made: list[Json] = []
        for at, line in enumerate(lines):
            parent = made[-1]["uuid"] if made else None
            known = {"uuid": f"u{at}", "parentUuid": parent, "timestamp": BEFORE, "sessionId": "s1"}
            made.append({**known, "isSidechain": False, **line})
        self.path.write_text("".join(json.dumps(each) + "\n" for each in made), encoding="utf-8")

    def lines(self) -> list[Json]:
        return [json.loads(line) for line in self.path.read_text(encoding="utf-8").splitlines()]

    def send_once(self, words: str = "Go on.", **options: Any) -> Json:
        """The request that the session in the file makes next."""
        self.twin.script("Well.")
        with self.open(**options) as session:
            session.send(words)
        return self.bodies[-1]

    def everturn(self, *arguments: object, **environment: str) -> Result:
        clean = {"ANTHROPIC_API_KEY": "", "ANTHROPIC_AUTH_TOKEN": "", "COLUMNS": "200"}
        runner = CliRunner(env={**clean, **environment})
        return runner.invoke(main, [str(each) for each in arguments], catch_exceptions=False)


class Chatted(NamedTuple):
    """One run of the chat: the requests that arrived at the provider, and what it printed."""

    bodies: list[Json]
    stdout: str
    stderr: str


class Chat:
    """`everturn chat -p` in a project of its own."""

    def __init__(self, folder: Path, twin: TwinForTests) -> None:
        self.home, self.twin = folder / "home", twin
        self.project = self.home / "work" / "project"
        (self.project / ".git").mkdir(parents=True)
        self.data = folder / "data"

    def __call__(self, words: str, *options: object, **environment: str) -> Chatted:
        bodies: list[Json] = []
        send = make_twin_send(self.twin.twin)

        def recorded(body: bytes, betas: Any) -> RawResponse:
            bodies.append(json.loads(body))
            return send(body, betas)

        home = {"HOME": str(self.home), "XDG_DATA_HOME": str(self.data)}
        runner = CliRunner(env={**home, **environment})
        given = ["chat", str(self.project), "--model", HAIKU, "-p", words, *map(str, options)]
        before = os.getcwd()
        try:
            with patch.object(start, "connect_to_model", lambda *_: ModelConnection(send=recorded)):
                done = runner.invoke(main, given, catch_exceptions=False)
        finally:
            os.chdir(before)
        assert done.exit_code == 0, done.stderr
        return Chatted(bodies, done.stdout, done.stderr)
