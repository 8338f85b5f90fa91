"""An agent at work in a folder of real files, against a twin, for as long as a test wants.

A busy agent decides what to do: its `Read` and `Edit` know the files of the folder. Edits change
them, and so does somebody outside, so that what was read is not what is there when a compaction comes.
"""

import random
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any, Literal

import msgspec
from busy_agent import BusyAgent
from engine.held import RULES, model_of
from message_rules import find_message_problems
from presets import USABLE_NOTES, compacting, preset, with_threshold
from scripted_twin import scripted_options

from everturn.decide.cache_breaks import DetectedBreak
from everturn.decide.compact.settings import CompactSettings, Strategy
from everturn.decide.compact.values import Compaction
from everturn.decide.effects import AskModel, Effect
from everturn.decide.options import Options
from everturn.engine import Conversation, ConversationSettings
from everturn.history.blocks import Block, fields_of, text_of
from everturn.measure.capabilities import ANTHROPIC, Capabilities
from everturn.measure.outline import Preamble
from everturn.session.conversation_runner import ConversationRunner, Exchange
from everturn.session.drivers import perform
from everturn.session.effect_handler import LocalEffectHandler
from everturn.session.files import resolve_roots
from everturn.session.hooks.run import Hooks
from everturn.session.upstream import make_sdk_send
from everturn.twin.costs import TwinCosts
from everturn.twin.testing import TwinForTests
from everturn.twin.upstream import make_twin_send
from everturn.view.key_parameters import KeyParameters, TtlChoice
from everturn.view.system_prompt import make_preamble, own_system_prompt
from everturn.wire.anthropic import tool_block

FILES = 7
LINE = "    return parse(token) if token else None  # see the grammar, section four\n"
RULE = "Never push to main."
TRANSCRIPT = "sessions/one.jsonl"


def coding_head(paths: list[str]) -> Preamble:
    where = {"type": "string", "enum": paths}
    fields: dict[str, dict[str, Any]] = {
        "Read": {"file_path": where},
        "Edit": {"file_path": where},
        "Bash": {"command": {"type": "string"}},
    }
    tools = [
        {
            "name": name,
            "description": "Does what its name says.",
            "input_schema": {"type": "object", "properties": given, "required": list(given)},
        }
        for name, given in fields.items()
    ]
    return make_preamble(tuple(map(tool_block, tools)), own_system_prompt(RULES))


class Observed:
    """Any world, and every effect that was asked of it. Requests for summaries must be valid too."""

    def __init__(self, world: Any) -> None:
        self._world = world
        self.effects: list[Effect] = []

    def __getattr__(self, name: str) -> Callable[[Any], Any]:
        return self._do

    def _do(self, effect: Effect) -> Any:
        self.effects.append(effect)
        if isinstance(effect, AskModel):
            assert list(find_message_problems(effect.request.messages)) == []
        return perform(effect, self._world)

    @property
    def asked(self) -> list[AskModel]:
        return [effect for effect in self.effects if isinstance(effect, AskModel)]


class Working:
    """One agent, its files, its twin, and every exchange so far."""

    def __init__(
        self,
        folder: Path,
        *,
        model: str = "claude-sonnet-4-5",
        ways: tuple[Strategy, ...] = ("notes", "fork", "direct", "extractive"),
        under: str | Options = "claude-code",
        percent: float | None = None,
        through: Literal["twin", "sdk"] = "twin",
        able: Capabilities = ANTHROPIC,
        hooks: Hooks | None = None,
        seed: int = 3,
        result_lines: int = 300,
        compact: CompactSettings | None = None,
        keep: Callable[[Any], None] = lambda _: None,
        **parameters: Any,
    ) -> None:
        self.rng = random.Random(seed)
        self.result_lines = result_lines
        self.box = TwinForTests(options=scripted_options(), agent=BusyAgent())
        self.project = folder / "project"
        self.project.mkdir()
        self.files = [self.project / f"part_{number}.py" for number in range(FILES)]
        for file in self.files:
            file.write_text(f"# {file.name}, version 0\n{LINE * 40}")
        self.read_as: dict[str, str] = {}
        self.said: list[str] = []
        self.events: list[Any] = []
        self.done: list[Exchange] = []
        options = with_threshold(under, percent) if percent else preset(under)
        self.setting = ConversationSettings(
            model=model_of(model),
            capabilities=able,
            options=msgspec.structs.replace(compacting(options, *ways, compact=compact), notes=USABLE_NOTES),
            costs=TwinCosts(model_of(model)),
            preamble=coding_head([str(file) for file in self.files]),
            parameters=KeyParameters(TtlChoice("5m", "the test says so"), **parameters),
            fields={"max_tokens": 8_000},
            transcript=TRANSCRIPT,
        )
        self.send = make_twin_send(self.box.twin) if through == "twin" else make_sdk_send(self.box.client())
        real = LocalEffectHandler(
            self.send,
            folder / "results",
            readable=resolve_roots((self.project,)),
            hooks=hooks,
            listen=self.events.append,
        )
        self.world = Observed(real)
        self._ids = count(1)
        self.runner = ConversationRunner(
            Conversation(self.setting),
            self.send,
            clock=self.box.twin.clock.now,
            new_id=self.new_id,
            handler=self.world,
            keep=keep,
        )

    def new_id(self) -> str:
        return f"{next(self._ids):08d}"

    # ── what happens ─────────────────────────────────────────────────────────────────────────────

    def task(self, text: str) -> Iterator[Exchange]:
        """A person asks for something; calls and results follow until the agent has said what it did."""
        self.said.append(text)
        self.runner.say(text)
        while True:
            self.done.append(self.runner.call())
            yield self.done[-1]
            self.box.advance(20)
            used = [block for block in self.done[-1].response.blocks if block.is_call]
            if not used:
                return
            self.runner.answer([(block.call, self._run(block)) for block in used])

    def work(self, tasks: int, about: str = "") -> Iterator[Exchange]:
        for at in range(tasks):
            yield from self.task(f"Task {len(self.said)}: {about or 'mend the parser'}, part {at}.")
            self._somebody_edits()

    def fill(self, tokens: int) -> None:
        """Work until the context has so many tokens."""
        while self.runner.conversation.size.tokens < tokens:
            list(self.work(1))

    def allow(self, *ways: Strategy) -> None:
        """Only these ways from now on."""
        options = self.runner.conversation.setting.options
        self.change(options=compacting(options, *ways, compact=options.compact))

    def change(self, **fields: Any) -> None:
        conversation = self.runner.conversation
        conversation.setting = msgspec.structs.replace(conversation.setting, **fields)

    def _run(self, block: Block) -> str:
        given = fields_of(block)["input"]
        if block.tool == "Read":
            self.read_as[given["file_path"]] = text = Path(given["file_path"]).read_text()
            return text
        if block.tool == "Edit":
            self._change(Path(given["file_path"]))
            return "Done."
        return "running test_parser.py ... ok\n" * self.rng.randint(self.result_lines, 2 * self.result_lines)

    def _somebody_edits(self) -> None:
        self._change(self.rng.choice(self.files))

    def _change(self, file: Path) -> None:
        file.write_text(f"# {file.name}, version {self.rng.random()}\n{LINE * self.rng.randint(20, 60)}")

    # ── what came of it ──────────────────────────────────────────────────────────────────────────

    @property
    def misses(self) -> list[str]:
        """What was not as predicted."""
        checks = [exchange.settled.check for exchange in self.done]
        return [
            "nothing predicted" if check is None else check.why
            for check in checks
            if check is None or check.verdict != "as predicted"
        ]

    @property
    def breaks(self) -> list[str]:
        return [
            each.settled.verdict.why for each in self.done if isinstance(each.settled.verdict, DetectedBreak)
        ]

    @property
    def refused(self) -> list[str]:
        return [each["error"]["message"] for each in self.box.ledger if each["error"]]

    @property
    def compactions(self) -> list[Compaction]:
        found = [each.turn.compacted for each in self.done]
        return [each for each in found if isinstance(each, Compaction)]


def restored(made: Compaction, kind: str) -> list[dict[str, Any]]:
    """The payloads of one kind of attachment behind a summary."""
    return [fields_of(each.blocks[0]) for each in made.restored if each.subtype == kind]


def told(made: Compaction) -> str:
    return "\n".join(text_of(block) for block in made.summary.blocks)


def low(percent: float, name: str = "claude-code") -> Options:
    """A policy whose automatic threshold is low, so that little work fills the context."""
    return with_threshold(name, percent)
