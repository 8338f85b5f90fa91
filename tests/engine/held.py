"""A conversation held against a twin: what is said, what the model answers, how time passes.

The model says what it is told to say. Every call is kept, so that a test can look at all of them at once.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Literal

import msgspec
from presets import compacting, never_compacting
from scripted_twin import scripted_options

from everturn.decide.cache_breaks import Baseline, CacheBreakDetector, DetectedBreak
from everturn.decide.compact.settings import Strategy
from everturn.decide.options import Options
from everturn.engine import Conversation, ConversationSettings
from everturn.history.records import Record
from everturn.measure.capabilities import ANTHROPIC, Capabilities
from everturn.measure.model_table import Model, find_model
from everturn.measure.outline import Preamble
from everturn.measure.prefix_cache import Ttl
from everturn.session.conversation_runner import ConversationRunner, Exchange
from everturn.session.upstream import make_sdk_send
from everturn.twin.costs import TwinCosts
from everturn.twin.options import TwinOptions
from everturn.twin.speaker import script_reply
from everturn.twin.testing import TwinForTests
from everturn.twin.upstream import make_twin_send
from everturn.view.key_parameters import KeyParameters, TtlChoice
from everturn.view.system_prompt import make_preamble, own_system_prompt
from everturn.wire.anthropic import tool_block
from everturn.wire.claude_code_reader import parse_session_file
from everturn.wire.claude_code_writer import encode_record

Fields = dict[str, Any]
TOOLS = ("Bash", "Edit", "Grep", "Read", "AskUserQuestion")
# Longer than the largest minimum of a cacheable prefix (4,096 tokens) with every tokenizer of the table.
RULES = "Read a file before you change it, and say honestly what the tests have shown. " * 220


def tool(name: str, about: str = "Does what its name says.") -> Fields:
    schema = {"type": "object", "properties": {"about": {"type": "string"}}}
    return {"name": name, "description": about, "input_schema": schema}


def head(
    system: str = RULES, tools: Sequence[str] = TOOLS, about: Mapping[str, str] | None = None
) -> Preamble:
    """Tools and system prompt of a coding agent; `about` replaces the description of a tool."""
    words = about or {}
    blocks = tuple(tool_block(tool(name, words.get(name, "Does what its name says."))) for name in tools)
    return make_preamble(blocks, own_system_prompt(system))


def model_of(name: str) -> Model:
    found = find_model(name)
    assert found is not None, name
    return found


def words(tokens: int, about: str) -> str:
    """So many words; a token is two to four characters, depending on the model."""
    return f"{about} " + "lorem ipsum dolor sit amet, " * (tokens // 8)


def thought(about: str) -> Fields:
    return {"type": "thinking", "thinking": words(40, f"I think about {about}.")}


def calls(names: Sequence[str], tool: str = "Read") -> list[Fields]:
    return [{"type": "tool_use", "id": name, "name": tool, "input": {"about": name}} for name in names]


class Held:
    """One conversation, the twin that answers it, and every exchange so far. It is compacted only where a
    test allows it."""

    def __init__(
        self,
        folder: Path,
        *,
        model: str = "claude-opus-4-6",
        under: str | Options = "none",
        ttl: Ttl = "5m",
        able: Capabilities = ANTHROPIC,
        options: TwinOptions | None = None,
        through: Literal["twin", "sdk"] = "twin",
        top: Preamble | None = None,
        thinks: Mapping[str, Any] | None = None,
        box: TwinForTests | None = None,
        **parameters: Any,
    ) -> None:
        self.folder = folder
        self.options = options or scripted_options()
        self.box = box or TwinForTests(options=self.options)
        self.twin = self.box.twin
        key = KeyParameters(TtlChoice(ttl, "the test says so"), thinking=thinks, **parameters)
        self._through = through
        self._ids = count(1)
        self._names = count(1)
        self.done: list[Exchange] = []
        self._open(
            ConversationSettings(
                model=model_of(model),
                capabilities=able,
                options=never_compacting(under),
                costs=TwinCosts(model_of(model), self.options),
                preamble=top or head(),
                parameters=key,
                fields={"max_tokens": 8_000},
            )
        )

    def _open(
        self,
        setting: ConversationSettings,
        records: Sequence[Record] = (),
        detector: CacheBreakDetector | None = None,
    ) -> None:
        sends = make_twin_send(self.twin) if self._through == "twin" else make_sdk_send(self.box.client())
        self.runner = ConversationRunner(
            Conversation(setting, records, detector=detector),
            sends,
            clock=self.twin.clock.now,
            new_id=lambda: f"{next(self._ids):08d}",
            folder=self.folder,
        )

    # ── what happens ─────────────────────────────────────────────────────────────────────────────

    def ask(self, text: str, *answers: str | Fields) -> Exchange:
        """A person says something, the model answers with these blocks; without any, it says a little."""
        self.runner.say(text)
        return self.call(*(answers or (words(30, "Well."),)))

    def call(self, *answers: str | Fields) -> Exchange:
        blocks = [{"type": "text", "text": each} if isinstance(each, str) else each for each in answers]
        self.twin.speaker.add([script_reply(blocks)])
        self.done.append(self.runner.call())
        return self.done[-1]

    def burst(self, width: int, *answers: str | Fields, tokens: int = 60, tool: str = "Read") -> Exchange:
        """A person asks, the model calls so many tools at once, they answer, and the model answers."""
        names = self.work(width, tool=tool)
        return self.finish(names, *answers, tokens=tokens)

    def work(self, width: int, *before: Fields, tool: str = "Read", text: str = "Look around.") -> list[str]:
        names = [f"toolu_{next(self._names):04d}" for _ in range(width)]
        self.ask(text, *before, *calls(names, tool))
        return names

    def finish(self, names: Sequence[str], *answers: str | Fields, tokens: int = 60) -> Exchange:
        """The results of these calls, and what the model says to them."""
        self.runner.answer([(name, words(tokens, f"Result of {name}.")) for name in names])
        return self.call(*(answers or (words(30, "Seen."),)))

    def wait(self, seconds: float) -> None:
        self.box.advance(seconds)

    def allow(self, *ways: Strategy) -> None:
        """Compactions by these strategies from now on."""
        self.change(options=compacting(self.runner.conversation.setting.options, *ways))

    def change(self, **fields: Any) -> None:
        """Another setting from the next turn on; another model brings its own costs."""
        conversation = self.runner.conversation
        if "model" in fields:
            fields["model"] = model_of(fields["model"])
            fields["costs"] = TwinCosts(fields["model"], self.options)
        conversation.setting = msgspec.structs.replace(conversation.setting, **fields)

    def restart(self, *, baselines: Literal["kept", "lost"] = "kept", **fields: Any) -> None:
        """As after the end of the process: the log from its lines, the baselines from their JSON."""
        before = self.runner.conversation
        lines = b"\n".join(encode_record(record) for record in before.log.records)
        written = msgspec.json.encode(before.detector.baselines)
        found = msgspec.json.decode(written, type=dict[str, Baseline]) if baselines == "kept" else {}
        records = parse_session_file(lines).records
        assert [record.uuid for record in records] == [record.uuid for record in before.log.records]
        setting = msgspec.structs.replace(before.setting, **fields)
        self._open(setting, records, CacheBreakDetector(baselines=found))

    # ── what came of it ──────────────────────────────────────────────────────────────────────────

    @property
    def verdicts(self) -> list[str]:
        """Of every call: what the check said, with its reason where it is not the wanted one."""
        checks = [exchange.settled.check for exchange in self.done]
        return [
            "nothing predicted"
            if check is None
            else check.verdict
            if check.verdict == "as predicted"
            else f"{at}: {check.why}"
            for at, check in enumerate(checks)
        ]

    @property
    def breaks(self) -> list[str]:
        found = [exchange.settled.verdict for exchange in self.done]
        return [verdict.why for verdict in found if isinstance(verdict, DetectedBreak)]

    @property
    def edits(self) -> list[str]:
        """The kinds of edits in the log, in their order."""
        return [type(record.edit).__name__ for record in self.runner.conversation.log.records if record.edit]

    @property
    def reads(self) -> list[int]:
        return [exchange.settled.check.reported.read for exchange in self.done if exchange.settled.check]


def each_as_predicted(held: Held) -> bool:
    return set(held.verdicts) == {"as predicted"}


def talk(held: Held, turns: int, pauses: Mapping[int, float] | None = None) -> Iterator[Exchange]:
    """Questions, tools and answers in turn; `pauses` are seconds before a turn."""
    for at in range(turns):
        held.wait((pauses or {}).get(at, 20))
        if at % 3:
            yield held.burst(1 + at % 4, tokens=200)
        else:
            yield held.ask(words(80, f"Question {at}."))
