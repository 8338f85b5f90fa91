"""A conversation without a provider: records as they are given, effects answered from a script."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import msgspec
from engine.held import model_of
from presets import USABLE_NOTES, preset

from everturn.decide.compact.settings import CompactSettings
from everturn.decide.effects import (
    AskModel,
    Effect,
    Emit,
    FileRead,
    HookOutcome,
    ModelAnswer,
    ModelFailure,
    ReadFiles,
    RunHooks,
)
from everturn.decide.events import Event
from everturn.decide.notes.settings import NotesSettings
from everturn.decide.options import Options
from everturn.engine import Conversation, ConversationSettings, Flow, Turn
from everturn.history.blocks import text_block
from everturn.history.records import Record, Usage
from everturn.measure.capabilities import ANTHROPIC
from everturn.twin.costs import TwinCosts
from everturn.view.key_parameters import KeyParameters, TtlChoice

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
SUMMARY = (
    "<summary>1. Primary request and intent: the user wants the parser mended and its tests made to pass, "
    "and nothing else touched. 2. Current work: the last token is still missing.</summary>"
)
NEVER = CompactSettings(enabled=False)
DOWN = ModelFailure("api_error", "503: the provider is down")


def summary(text: str = SUMMARY) -> ModelAnswer:
    return ModelAnswer((text_block(text),), "end_turn", Usage(1_000, 0, 0, 300))


class Alone:
    """One conversation, compacted only where `compact` says how. Models answer with `answers` in turn; the
    last of them answers all further calls."""

    def __init__(
        self,
        records: Iterable[Record] = (),
        *,
        under: str | Options = "none",
        model: str = "claude-sonnet-4-5",
        answers: Sequence[ModelAnswer | ModelFailure] = (DOWN,),
        compact: CompactSettings | None = None,
        notes: NotesSettings = USABLE_NOTES,
        **fields: Any,
    ) -> None:
        self.answers = list(answers)
        self.effects: list[Effect] = []
        self.now = NOON
        self._ids = count(1)
        options = msgspec.structs.replace(preset(under), compact=compact or NEVER, notes=notes)
        setting = ConversationSettings(
            model=model_of(model),
            capabilities=ANTHROPIC,
            options=options,
            costs=TwinCosts(model_of(model)),
            parameters=KeyParameters(TtlChoice("5m", "the test says so")),
        )
        self.conversation = Conversation(msgspec.structs.replace(setting, **fields), records)

    def new_id(self) -> str:
        return f"new-{next(self._ids)}"

    def turn(self, after: timedelta = timedelta(0)) -> Turn:
        self.now += after
        return self.run(self.conversation.turn(self.now, self.new_id))

    def run(self, flow: Flow[Any]) -> Any:
        answer: Any = None
        while True:
            try:
                effect = flow.send(answer)
            except StopIteration as done:
                return done.value
            self.effects.append(effect)
            answer = self._perform(effect)

    def _perform(self, effect: Effect) -> Any:
        match effect:
            case AskModel():
                return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
            case ReadFiles(paths=paths):
                return tuple(FileRead(path, "as it is now") for path in paths)
            case RunHooks():
                return HookOutcome()
            case _:
                return None

    @property
    def asked(self) -> list[AskModel]:
        return [effect for effect in self.effects if isinstance(effect, AskModel)]

    @property
    def events(self) -> list[Event]:
        return [effect.event for effect in self.effects if isinstance(effect, Emit)]
