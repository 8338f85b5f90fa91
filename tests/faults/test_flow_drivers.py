"""The same turns under every driver, and under one that fails each effect in turn (OV-2, CP-28).

After whatever failed, the view is the old one or the new one, the next turn works, and nobody is surprised.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, Literal

import pytest
from engine.held import head, model_of, words
from faults.broken_worlds import AsyncBroken, Broken, How
from message_rules import find_message_problems
from scripted_twin import scripted_options

from everturn.decide.cache_breaks import DetectedBreak
from everturn.decide.compact.settings import CompactSettings
from everturn.decide.compact.values import Compaction, CompactionRequest
from everturn.decide.economy.settings import EconomySettings
from everturn.decide.effects import AskModel, Effect, HookOutcome, ReadFiles, RunHooks, WriteFile
from everturn.decide.options import Options
from everturn.decide.settings import MicroSettings, OversizeSettings
from everturn.engine import Conversation, ConversationSettings, Flow, Turn
from everturn.errors import StoreError
from everturn.history.blocks import result_block, text_block
from everturn.history.edits import Compacted
from everturn.history.log import Log
from everturn.history.records import Record, Usage
from everturn.measure.capabilities import ANTHROPIC
from everturn.measure.thresholds import ThresholdSettings
from everturn.session.drivers import drive, drive_async
from everturn.session.effect_handler import LocalEffectHandler
from everturn.session.files import resolve_roots
from everturn.twin.costs import TwinCosts
from everturn.twin.speaker import script_reply
from everturn.twin.testing import TwinForTests
from everturn.twin.upstream import make_twin_send
from everturn.view.key_parameters import KeyParameters, TtlChoice
from everturn.wire.anthropic import read_response

Driver = Literal["sync", "async"]
FILE = "notes.txt"
# A question, or the tools that the model calls; results are so many tokens.
SCENE: tuple[tuple[str, int], ...] = (
    ("ask", 200), ("read", 300), ("read", 4_000), ("ask", 4_000), ("read", 400), ("ask", 7_000),
    ("read", 300), ("ask", 100),
)  # fmt: skip
OPTIONS = Options(
    policy="claude-code",
    economy=EconomySettings(enabled=False),
    compact=CompactSettings(strategies=("fork", "direct", "extract")),
    thresholds=ThresholdSettings(auto_percent=9),
    micro=MicroSettings(oversize=OversizeSettings(message=30_000, single=9_000, preview=200)),
)


class Talkative(LocalEffectHandler):
    """Hooks that have something to say at every event."""

    def run_hooks(self, effect: RunHooks) -> HookOutcome:
        return HookOutcome(context=(f"{effect.event} was here.",), instructions=("Name the tickets.",))


class Scene:
    """One scripted session with an offload and a compaction, driven effect by effect."""

    def __init__(self, folder: Path, driver: Driver, at: int = 0, how: How = "answers") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / FILE
        self.path.write_text("as it is now\n" * 30)
        self.box = TwinForTests(options=scripted_options())
        self.send = make_twin_send(self.box.twin)
        model = model_of("claude-opus-4-5")
        self.conversation = Conversation(
            ConversationSettings(
                model=model,
                capabilities=ANTHROPIC,
                options=OPTIONS,
                costs=TwinCosts(model),
                preamble=head(),
                parameters=KeyParameters(TtlChoice("5m", "the test says so")),
                fields={"max_tokens": 4_000},
            )
        )
        world = Talkative(self.send, folder / "results", readable=resolve_roots((folder,)))
        self.world: Any = Broken(world, at, how) if driver == "sync" else AsyncBroken(world, at, how)
        self._driver = driver
        self._ids = count(1)
        self.bodies: list[bytes] = []
        self.wrong: list[str] = []
        self.raised = 0

    def run(self) -> "Scene":
        for at, (kind, tokens) in enumerate(SCENE):
            call = f"toolu_{at:04d}"
            self.add("user", text_block(words(tokens if kind == "ask" else 20, f"Question {at}.")))
            if kind == "ask":
                self.turn(script_reply(words(30, f"Answer {at}.")))
                continue
            given = {"file_path": str(self.path)}
            self.turn(script_reply([{"type": "tool_use", "id": call, "name": "Read", "input": given}]))
            self.add("user", result_block(call, words(tokens * 3, f"Content {at}.")))
            self.turn(script_reply(words(30, f"Read {at}.")))
        return self

    def add(self, kind: Any, *blocks: Any, **more: Any) -> None:
        records = self.conversation.log.records
        parent = records[-1].uuid if records else ""
        stamp = self.box.twin.clock.now().isoformat().replace("+00:00", "Z")
        self.conversation.add(
            Record(kind=kind, uuid=self.new_id(), parent=parent, timestamp=stamp, blocks=blocks, **more)
        )

    def new_id(self) -> str:
        return f"{next(self._ids):06d}"

    def drive(self, flow: Flow[Any]) -> Any:
        return (
            drive(flow, self.world) if self._driver == "sync" else asyncio.run(drive_async(flow, self.world))
        )

    def turn(self, answer: Any) -> None:
        """Whoever fails tries once more: the n-th effect fails only once."""
        self.box.advance(20)
        try:
            turn: Turn = self.drive(self.conversation.turn(self.box.twin.clock.now(), self.new_id))
        except (StoreError, KeyboardInterrupt):
            self.raised += 1
            self.look()
            turn = self.drive(self.conversation.turn(self.box.twin.clock.now(), self.new_id))
        self.look()
        self.wrong += find_message_problems(turn.captured.messages)
        self.bodies.append(turn.request().to_bytes())
        self.box.twin.speaker.add([answer])
        answered = self.send(self.bodies[-1], turn.betas)
        response = read_response(answered.body)
        records = self.conversation.log.records
        reply = Record(
            kind="assistant",
            uuid=self.new_id(),
            parent=records[-1].uuid,
            timestamp=self.box.twin.clock.now().isoformat().replace("+00:00", "Z"),
            blocks=response.blocks,
            reply=response.reply,
        )
        usage = response.reply.usage or Usage()
        settled = self.conversation.record_reply([reply], usage, self.box.twin.clock.now())
        if settled.check is None or settled.check.verdict != "as predicted":
            self.wrong.append(str(settled.check))
        if isinstance(settled.verdict, DetectedBreak):
            self.wrong.append(settled.verdict.why)

    def look(self) -> None:
        """The view is one that the log gives: of all boundaries in it, each has its summary."""
        log = self.conversation.log
        assert Log(log.records).view == log.view
        for at, record in enumerate(log.records):
            if isinstance(record.edit, Compacted):
                assert log.records[at + 1].compact_summary

    @property
    def effects(self) -> Sequence[Effect]:
        return self.world.done

    @property
    def compacted(self) -> bool:
        return self.conversation.log.view.boundary is not None


@pytest.mark.spec("OV-2")
def test_sync_and_async_come_to_the_same_records_and_requests(tmp_path):
    one, other = Scene(tmp_path, "sync").run(), Scene(tmp_path, "async").run()
    assert one.compacted
    assert one.conversation.log.records == other.conversation.log.records
    assert one.bodies == other.bodies
    assert [each.__class__ for each in one.effects] == [each.__class__ for each in other.effects]
    assert one.wrong == other.wrong == []
    # Every kind of effect is asked for, or the trials below would prove little.
    kinds = {type(effect) for effect in one.effects}
    assert {WriteFile, AskModel, ReadFiles, RunHooks} < kinds


@pytest.mark.spec("OV-2", "CP-28")
@pytest.mark.parametrize("driver", ["sync", "async"])
@pytest.mark.parametrize("how", ["answers", "blocks", "cancels", "interrupts"])
def test_whichever_effect_fails_the_next_turn_works(tmp_path, driver, how, record_property):
    number = len(Scene(tmp_path / "whole", driver).run().effects)
    assert number >= 7
    for at in range(1, number + 1):
        scene = Scene(tmp_path / f"{at}", driver, at, how).run()
        assert scene.wrong == [], (at, scene.effects[at - 1])
        assert scene.compacted, (at, scene.effects[at - 1])
    record_property("trials", f"effects: {number} of {number} failed in turn, {how}, {driver}")


@pytest.mark.spec("CP-28")
@pytest.mark.parametrize("at", range(1, 8))
def test_an_interrupt_before_the_records_leaves_the_view_as_it_was(tmp_path, at):
    scene = Scene(tmp_path, "sync")
    scene.run()
    conversation = scene.conversation
    for number in range(3):
        scene.add("user", text_block(words(300, f"More {number}.")))
        scene.turn(script_reply("Yes."))
    before, view = list(conversation.log.records), conversation.log.view
    scene.world = Broken(scene.world._world, at, "interrupts")
    flow = conversation.compact(CompactionRequest(trigger="manual"), scene.box.twin.clock.now(), scene.new_id)
    with suppress(KeyboardInterrupt):
        scene.drive(flow)
    changed = conversation.log.records != before
    if not changed:
        assert conversation.log.view == view
    assert changed == (at > 4), scene.effects[at - 1 : at]
    scene.look()
    scene.add("user", text_block("And now?"))
    scene.turn(script_reply("Still here."))
    assert scene.wrong == []


@pytest.mark.spec("OV-1")
def test_the_steps_of_a_turn_come_in_their_order(tmp_path):
    """Stale results leave, what no longer fits is summarized, and the request is made of what is left."""
    scene = Scene(tmp_path, "sync").run()
    for number in range(8):
        call = f"toolu_x{number}"
        scene.add("user", text_block(words(20, "Look.")))
        given = {"file_path": str(scene.path)}
        scene.turn(script_reply([{"type": "tool_use", "id": call, "name": "Read", "input": given}]))
        scene.add("user", result_block(call, words(500, "Content.")))
        scene.turn(script_reply("Seen. " * 400))
    scene.add("user", text_block(words(3_000, "A long story.")))
    scene.box.advance(4_000)
    start = len(scene.conversation.log.records)
    scene.turn(script_reply("Well."))
    made = scene.conversation.log.records[start:]
    kinds = [type(record.edit).__name__ for record in made if record.edit]
    assert kinds[:2] == ["Cleared", "Compacted"]
    assert made[-1].kind == "assistant"
    assert scene.wrong == []


def test_a_compaction_by_hand_is_the_same_flow(tmp_path):
    scene = Scene(tmp_path, "async").run()
    scene.add("user", text_block(words(2_000, "More.")))
    scene.turn(script_reply("Yes."))
    flow = scene.conversation.compact(
        CompactionRequest(trigger="manual"), scene.box.twin.clock.now(), scene.new_id
    )
    assert isinstance(scene.drive(flow), Compaction)
    scene.add("user", text_block("And now?"))
    scene.turn(script_reply("Still here."))
    assert scene.wrong == []
