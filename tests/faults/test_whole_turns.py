"""Every effect of whole turns fails in turn, as a session performs them (OV-2, CP-28).

A scene holds all kinds of effects: hooks of every event, a result that is written to a file, a compaction by
one of its ways, files that come back. Whatever failed: somebody is told why, what is sent next is valid, and
the session opens again with what was in view.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest
from faults.broken_worlds import How, failed
from message_rules import find_message_problems
from scripted_twin import scripted_options

from everturn import Session, Tool
from everturn.decide.compact.values import Compaction, CompactionFailed, CompactionSkipped, Strategy
from everturn.decide.effects import AskModel, Effect, ReadFiles, RunHooks, WriteFile
from everturn.decide.events import HookTrouble
from everturn.decide.notes.document import Notes, NotesState
from everturn.decide.options import Options
from everturn.decide.settings import MicroSettings, OversizeSettings
from everturn.errors import StoreError
from everturn.history.blocks import text_of
from everturn.measure.thresholds import ThresholdSettings
from everturn.session.async_session import AsyncSession
from everturn.session.config.load import with_value
from everturn.session.effect_handler import LocalEffectHandler
from everturn.session.hooks.run import CallbackHook, Hooks
from everturn.session.loop_hooks import PromptBlocked
from everturn.session.session import Reply
from everturn.session.store import Access
from everturn.twin.speaker import script_reply
from everturn.twin.testing import TwinForTests
from everturn.twin.upstream import make_twin_send
from everturn.view.flatten import flatten

Driver = Literal["sync", "async"]
RULES = "Read a file before you change it, and say honestly what the tests have shown. " * 220
SMALL = Options(
    policy="claude-code",
    thresholds=ThresholdSettings(auto_percent=4),
    micro=MicroSettings(oversize=OversizeSettings(message=30_000, single=9_000, preview=200)),
)
EVENTS = (
    "SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop", "PreCompact", "PostCompact",
    "SessionEnd",
)  # fmt: skip
METHODS = {"write_file": WriteFile, "read_files": ReadFiles, "_asked": AskModel, "run_hooks": RunHooks}
# What must be read somewhere once such an effect has failed.
SAYS = {
    (WriteFile, "answers"): "could not be written",
    (ReadFiles, "answers"): "it could not be read",
    (AskModel, "answers"): "the line is dead",
    (RunHooks, "answers"): "the hook was late",
    (RunHooks, "blocks"): "not now",
    (AskModel, "cancels"): "KeyboardInterrupt",
}
READ = {"name": "Read", "description": "Reads.", "input_schema": {"type": "object", "properties": {}}}
LIST = READ | {"name": "LS", "description": "Lists."}


class Scene:
    """One session of a few turns in which the n-th effect fails; n is 0 where none does."""

    def __init__(self, folder: Path, ways: tuple[Strategy, ...], driver: Driver, at: int, how: How) -> None:
        folder.mkdir(parents=True)
        self.file = folder / "parser.py"
        self.file.write_text("def parse(): ...\n" * 20)
        self.folder, self.ways, self.driver = folder, ways, driver
        self.at, self.how = at, how
        self.box = TwinForTests(options=scripted_options())
        self.effects: list[Effect] = []
        self.told: list[str] = []
        self.outcomes: list[Any] = []
        self._ids = count(1)

    # ── the world ────────────────────────────────────────────────────────────────────────────────

    def spoil(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in METHODS:
            monkeypatch.setattr(LocalEffectHandler, name, self._spoiled(getattr(LocalEffectHandler, name)))

    def _spoiled(self, real: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        def performed(world: Any, effect: Any) -> Any:
            self.effects.append(effect)
            return failed(effect, self.how) if len(self.effects) == self.at else real(world, effect)

        return performed

    def _heard(self, event: Any) -> None:
        if isinstance(event, HookTrouble):
            self.told += event.details

    def _read(self, given: Any) -> str:
        return self.file.read_text() if given.get("file_path") else "a long line of output\n" * 900

    # ── the turns ────────────────────────────────────────────────────────────────────────────────

    def run(self) -> "Scene":
        try:
            session = self.open()
        except KeyboardInterrupt:
            self.told.append("KeyboardInterrupt at the beginning")
            session = self.open()
        for number, said in enumerate(self._script()):
            self._take_notes(session)
            self.turn(session, f"Question {number}. " + said)
        self.view = in_view(session)
        self._gather(session)
        try:
            session.close()
        except KeyboardInterrupt:
            self.told.append("KeyboardInterrupt at the end")
        with self.open(access="read") as session:
            assert in_view(session) == self.view
        return self

    def _script(self) -> list[str]:
        look = {"type": "tool_use", "name": "Read", "input": {"file_path": str(self.file)}}
        listing = {"type": "tool_use", "name": "LS", "input": {"all": "yes"}}
        summary = f"<summary>1. Primary request: {'the parser is to be mended, ' * 20}</summary>"
        self.box.twin.speaker.add([script_reply(summary, when="Write a summary")])
        self.box.script({"content": [look]}, "Seen.", {"content": [listing]}, "Also seen.", *["Well."] * 9)
        return ["Look. ", "List. ", "A story. " * 8_000, *["More of it. " * 900] * 5]

    def _take_notes(self, session: Session) -> None:
        records = session.conversation.log.view.records
        if "notes" in self.ways and records:
            body = "# Session title\nMending\n\n# Current state\n" + "The parser is mended. " * 20
            setting = session.conversation.setting
            options = with_value(setting.options, "notes.enabled", True)
            session.conversation.setting = msgspec.structs.replace(setting, options=options)
            session.conversation.notes = Notes(body, NotesState(covers=records[-1].uuid))

    def open(self, access: Access = "write") -> Session:
        def says(payload: Any) -> str | None:
            event = payload["hook_event_name"]
            return f"{event} was here." if event not in ("PreToolUse", "Stop", "SessionEnd") else None

        return Session.open(
            self.folder / "s.jsonl",
            SMALL,
            model="claude-opus-4-6",
            system=RULES,
            send=make_twin_send(self.box.twin),
            tools=[Tool(READ, self._read), Tool(LIST, self._read)],
            ways=self.ways,
            hooks=Hooks(tuple(CallbackHook(event, says) for event in EVENTS)),
            listen=self._heard,
            roots=[self.folder],
            clock=self.box.twin.clock.now,
            new_id=lambda: f"{next(self._ids):08d}",
            fsync="never",
            access=access,
        )

    def turn(self, session: Session, said: str) -> None:
        """Whoever fails tries again: what was said stays said, unless a hook did not let it be."""
        self.box.advance(20)
        try:
            reply = self.send(session, said)
        except PromptBlocked as problem:
            self.told.append(str(problem))
            reply = self.send(session, said)
        except (StoreError, KeyboardInterrupt) as problem:
            self.told.append(f"{type(problem).__name__}: {problem}")
            self._is_valid(session)
            records = session.conversation.log.records
            if records[-1].kind == "assistant":
                # In a Stop hook: the answer was there already.
                return
            reply = self.send(session, () if any(said in words(each) for each in records) else said)
        assert reply.text, reply
        self.outcomes.append(reply.exchange.turn.compacted)
        assert list(find_message_problems(reply.exchange.turn.captured.messages)) == []
        self._is_valid(session)

    def send(self, session: Session, said: Any) -> Reply:
        if self.driver == "sync":
            return session.send(said)

        async def sent() -> Reply:
            with ThreadPoolExecutor(1) as thread:
                return await AsyncSession(session, thread).send(said)

        return asyncio.run(sent())

    def _is_valid(self, session: Session) -> None:
        assert list(find_message_problems(flatten(session.conversation.log.view).messages)) == []

    def _gather(self, session: Session) -> None:
        """Everything in which a reason may be named."""
        for outcome in self.outcomes:
            match outcome:
                case Compaction(attempts=attempts) | CompactionFailed(attempts=attempts):
                    self.told += [attempt.problem for attempt in attempts]
                case CompactionSkipped(why=why):
                    self.told.append(why)
        self.told += [words(each) for each in session.conversation.log.records if each.kind == "attachment"]


def words(record: Any) -> str:
    return "\n".join(text_of(block) or block.raw.decode() for block in record.blocks)


def in_view(session: Session) -> str:
    return "\n".join(
        text_of(block)
        for message in flatten(session.conversation.log.view).messages
        for block in message.blocks
    )


WAYS: tuple[tuple[Strategy, ...], ...] = (
    ("fork", "extractive"),
    ("direct", "extractive"),
    ("provider", "extractive"),
    ("notes", "extractive"),
    ("extractive",),
)


def played(
    folder: Path, ways: tuple[Strategy, ...], driver: Driver, at: int = 0, how: How = "answers"
) -> Scene:
    scene = Scene(folder / f"{'-'.join(ways)}-{driver}-{how}-{at}", ways, driver, at, how)
    with pytest.MonkeyPatch.context() as monkeypatch:
        scene.spoil(monkeypatch)
        return scene.run()


@pytest.mark.spec("OV-2")
@pytest.mark.parametrize("ways", WAYS, ids="-".join)
def test_a_scene_holds_every_kind_of_effect_and_is_the_same_with_awaits(tmp_path, ways):
    one, other = played(tmp_path, ways, "sync"), played(tmp_path, ways, "async")
    assert [made.attempts[-1].strategy for made in one.outcomes if isinstance(made, Compaction)] == [ways[0]]
    kinds = {WriteFile, ReadFiles, RunHooks} | (
        {AskModel} if ways[0] in ("fork", "direct", "provider") else set()
    )
    assert {type(effect) for effect in one.effects} == kinds
    hooks = {effect.event for effect in one.effects if isinstance(effect, RunHooks)}
    assert hooks == set(EVENTS)
    assert [type(effect) for effect in one.effects] == [type(effect) for effect in other.effects]
    assert one.view.replace(str(one.folder), "") == other.view.replace(str(other.folder), "")


# Each way where answers are failures; every other trouble, and awaits, where all kinds of effects are. The
# ways differ in what a compaction does, and awaits in how each kind is performed: there only that is tried.
TRIALS: tuple[tuple[tuple[Strategy, ...], How, Driver], ...] = (
    *((ways, "answers", "sync") for ways in WAYS),
    (WAYS[0], "blocks", "sync"),
    (WAYS[0], "cancels", "sync"),
    (WAYS[0], "interrupts", "sync"),
    (WAYS[0], "answers", "async"),
    (WAYS[0], "interrupts", "async"),
)
ONLY: dict[How, tuple[type, ...]] = {"blocks": (RunHooks,), "cancels": (AskModel,)}


def of_the_compaction(effects: list[tuple[int, Effect]]) -> list[tuple[int, Effect]]:
    """From the hooks before it to the end of its turn."""
    events = [getattr(each, "event", "") for _, each in effects]
    start = events.index("PreCompact")
    return effects[start : events.index("Stop", start)]


def first_of_each_kind(effects: list[tuple[int, Effect]]) -> list[int]:
    kinds = {(type(each), getattr(each, "event", "")): at for at, each in reversed(effects)}
    return sorted(kinds.values())


@pytest.mark.spec("OV-2", "CP-28")
@pytest.mark.parametrize(("ways", "how", "driver"), TRIALS)
def test_whichever_effect_fails_the_view_is_valid_and_the_reason_is_named(
    tmp_path, ways, how, driver, record_property
):
    whole = played(tmp_path, ways, driver).effects
    numbered = [(at, each) for at, each in enumerate(whole, 1) if isinstance(each, ONLY.get(how, (object,)))]
    if ways != WAYS[0]:
        numbered = of_the_compaction(numbered)
    tried = first_of_each_kind(numbered) if driver == "async" else [at for at, _ in numbered]
    for at in tried:
        scene = played(tmp_path, ways, driver, at, how)
        effect = scene.effects[at - 1]
        says = "KeyboardInterrupt" if how == "interrupts" else SAYS[type(effect), how]
        assert any(says in told for told in scene.told), (at, effect, scene.told)
    record_property("trials", f"whole turns: {len(tried)} effects failed in turn, {how}, {driver}, {ways[0]}")
