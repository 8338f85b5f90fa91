"""A desk to try the chat on: a project, a home, a twin with a script, and a screen that is a text."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from everturn.chat.agent import ChatAgent, ChatSettings
from everturn.chat.model_connection import ModelConnection
from everturn.chat.permission import PermissionAnswer, PermissionMode, PermissionRequest, Permissions
from everturn.chat.screen.terminal import Terminal, TerminalKind
from everturn.decide.options import Options
from everturn.twin.testing import TwinForTests
from everturn.twin.upstream import make_twin_send

MODEL = "claude-haiku-4-5"
SUMMARY = (
    "<summary>1. The login was looked at in app.py; nothing was changed, and nothing is left to do.</summary>"
)


class Paper(Terminal):
    """A terminal without a person: what was said is a text, and answers lie ready."""

    def __init__(self, kind: TerminalKind = "pipe") -> None:
        self._bytes = io.BytesIO()
        super().__init__(say_to=io.TextIOWrapper(self._bytes, encoding="utf-8"), kind=kind)
        self.answers: list[str | type[BaseException]] = []
        self.questions: list[str] = []

    def _line(self, prompt: str) -> str:
        self.questions.append(prompt)
        if not self.answers:
            raise EOFError
        answer = self.answers.pop(0)
        if isinstance(answer, str):
            return answer
        raise answer

    @property
    def text(self) -> str:
        self._out.flush()
        return self._bytes.getvalue().decode()

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()


class Desk:
    def __init__(self, folder: Path, twin: TwinForTests) -> None:
        self.project, self.home, self.data = folder / "project", folder / "home", folder / "data"
        for each in (self.project, self.home):
            each.mkdir()
        (self.project / "app.py").write_text("def login():\n    return None\n")
        self.twin = twin
        self.paper = Paper()
        self.requests: list[PermissionRequest] = []
        self.answer: PermissionAnswer = "once"
        self.path = self.data / "one.jsonl"
        self.agents: list[ChatAgent] = []

    def agent(
        self,
        mode: PermissionMode = "ask",
        *,
        model: str = MODEL,
        connection: ModelConnection | None = None,
        **options: Any,
    ) -> ChatAgent:
        settings = ChatSettings(
            self.project,
            self.home,
            self.data,
            Options(model=model, **options),
        )
        made = ChatAgent(
            settings, connection or self.connection(), self.paper, Permissions(self._asked, mode)
        )
        made.open(self.path)
        self.agents.append(made)
        return made

    def connection(self) -> ModelConnection:
        return ModelConnection(send=make_twin_send(self.twin.twin))

    def call(self, tool: str, **given: Any) -> dict[str, Any]:
        return {"content": [{"type": "tool_use", "name": tool, "input": given}]}

    def _asked(self, request: PermissionRequest) -> PermissionAnswer:
        self.requests.append(request)
        return self.answer


@pytest.fixture
def desk(tmp_path: Path, twin: TwinForTests, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    monkeypatch.setenv("PYTHONIOENCODING", "utf-8")
    monkeypatch.setenv("COLUMNS", "80")
    made = Desk(tmp_path, twin)
    monkeypatch.chdir(made.project)
    yield made
    for agent in made.agents:
        agent.close()
