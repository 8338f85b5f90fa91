"""A desk to try the chat on: a project, a home, a twin with a script, and a screen that is a text."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from everturn.chat.agent import Agent, Terms
from everturn.chat.permission import Answer, Mode, Permissions, Wish
from everturn.chat.provider import Way
from everturn.chat.screen.terminal import Kind, Terminal
from everturn.session.config.shape import of_policy
from everturn.twin.testing import TwinForTests
from everturn.twin.upstream import through_twin

MODEL = "claude-haiku-4-5"
SUMMARY = (
    "<summary>1. The login was looked at in app.py; nothing was changed, and nothing is left to do.</summary>"
)


class Paper(Terminal):
    """A terminal without a person: what was said is a text, and answers lie ready."""

    def __init__(self, kind: Kind = "pipe") -> None:
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
        self.wishes: list[Wish] = []
        self.answer: Answer = "once"
        self.path = self.data / "one.jsonl"
        self.agents: list[Agent] = []

    def agent(
        self, mode: Mode = "ask", *, model: str = MODEL, way: Way | None = None, **config: Any
    ) -> Agent:
        terms = Terms(
            self.project,
            self.home,
            self.data,
            msgspec.structs.replace(of_policy("claude-code"), model=model, **config),
        )
        made = Agent(terms, way or self.way(), self.paper, Permissions(self._asked, mode))
        made.open(self.path)
        self.agents.append(made)
        return made

    def way(self) -> Way:
        return Way(send=through_twin(self.twin.twin))

    def call(self, tool: str, **given: Any) -> dict[str, Any]:
        return {"content": [{"type": "tool_use", "name": tool, "input": given}]}

    def _asked(self, wish: Wish) -> Answer:
        self.wishes.append(wish)
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
