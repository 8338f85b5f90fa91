"""One long session against a twin, until it has been compacted a few times.

Simulated user prompts make the twin's agent work on the files of a small project. The context fills up, is
compacted, and fills up again. Everything goes through `Session`, as with the real API.
"""

import random
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import msgspec

from everturn.decide.compact.chain import RECEIPT
from everturn.decide.compact.pins import CARRIED
from everturn.decide.events import CompactionDone, Event
from everturn.history.blocks import fields_of, text_of
from everturn.measure.model_table import Model
from everturn.replay.demo_session import coding_preamble
from everturn.safe_files import read_file, write_file
from everturn.session.bill import Bill
from everturn.session.session import Session
from everturn.session.tools import Tool
from everturn.twin.build import build_twin
from everturn.twin.clock import VirtualClock
from everturn.twin.costs import TwinCosts
from everturn.twin.upstream import make_twin_send
from everturn.view.fragments.reminder import attachment_words

_NAMES: Final = ("feed", "route", "ledger", "parser", "queue", "harbor", "signal", "tariff")
_TASKS: Final = (
    "Follow {path} to where it is used, and fix what {name} does when it is empty.",
    "The test of {name} fails now and then. Find out why; {path} is where I would look.",
    "Make {path} faster, and show me what you measured.",
    "Move what {name} and {other} have in common into one place.",
)
_RULE: Final = "Never push to main, and use bun instead of npm."
# Seconds the user needs to read an answer.
_PAUSE: Final = 40.0


class LongSessionCall(msgspec.Struct, frozen=True):
    """One call: its context in tokens, and how much of it was read from the cache."""

    number: int
    context: int
    read: int


class LongSessionCompaction(msgspec.Struct, frozen=True):
    """A compaction; `receipt` is what the model was told about it."""

    way: str
    tokens_before: int
    tokens_after: int
    # The share of the summary call's input that was read from the cache.
    share_read: float
    receipt: tuple[str, ...]


class LongSessionEnd(msgspec.Struct, frozen=True):
    prompts: int
    records: int
    bill: Bill
    carried: str


def run_long_session(
    *, model: Model, compactions: int, seed: int
) -> Iterator[LongSessionCall | LongSessionCompaction | LongSessionEnd]:
    """The calls of the session in order, with the compactions between them, and a final summary."""
    with TemporaryDirectory() as folder:
        yield from _LongSession(Path(folder), model, seed).run(compactions)


class _LongSession:
    def __init__(self, folder: Path, model: Model, seed: int) -> None:
        self.folder = folder
        self.rng = random.Random(seed)
        self.twin = build_twin(seed=seed)
        self.done: list[CompactionDone] = []
        # The number of calls at each compaction that was not yet reported.
        self.untold: list[int] = []
        for name in _NAMES:
            write_file(folder / f"{name}.py", self._code(name, 400).encode())
        self.session = self._opened(model)

    def _opened(self, model: Model) -> Session:
        preamble, ids = coding_preamble(), count(1)
        return Session.open(
            self.folder / "session.jsonl",
            model=model.id,
            send=make_twin_send(self.twin),
            tools=[Tool(fields_of(block), self._tool(block.tool)) for block in preamble.tools],
            system="\n\n".join(text_of(block) for block in preamble.system),
            costs=TwinCosts(model),
            clock=self.twin.clock.now,
            new_id=lambda: f"{next(ids):08d}",
            listen=self._hear,
            roots=[self.folder],
            store={"url": "", "fsync": "never"},
        )

    def run(self, compactions: int) -> Iterator[LongSessionCall | LongSessionCompaction | LongSessionEnd]:
        shown = prompts = 0
        with self.session as session:
            session.pin(_RULE)
            while len(self.done) < compactions or prompts % 4:
                session.send(self._task())
                prompts += 1
                yield from self._since(shown)
                shown = len(self.twin.ledger())
                self._wait(_PAUSE)
            log = session.conversation.log
            pins = (each for each in log.view.records if each.subtype == CARRIED)
            carried = _RULE if any(_RULE in attachment_words(each.blocks[0]) for each in pins) else ""
            yield LongSessionEnd(prompts, len(log.records), session.bill, carried)

    def _since(self, shown: int) -> Iterator[LongSessionCall | LongSessionCompaction]:
        """Calls since `shown`. A compaction is reported before the call that it made possible."""
        for number, entry in enumerate(self.twin.ledger()[shown:], start=shown + 1):
            if self.untold and number > self.untold[0]:
                self.untold.pop(0)
                yield self._compaction(len(self.done) - 1 - len(self.untold))
            usage = entry["usage"]
            read = usage["cache_read_input_tokens"]
            context = read + usage["input_tokens"] + usage["cache_creation_input_tokens"]
            yield LongSessionCall(number, context, read)

    def _compaction(self, at: int) -> LongSessionCompaction:
        event = self.done[at]
        share = event.usage.cache_read_input_tokens / max(1, event.usage.context)
        receipts = [each for each in self.session.conversation.log.records if each.subtype == RECEIPT]
        words = attachment_words(receipts[at].blocks[0]).replace(f"{self.folder}/", "")
        lines = tuple(line.removeprefix("- ") for line in words.splitlines() if line.startswith("- "))
        return LongSessionCompaction(event.way, event.tokens_before, event.tokens_after, share, lines)

    def _hear(self, event: Event) -> None:
        if isinstance(event, CompactionDone):
            self.done.append(event)
            self.untold.append(len(self.twin.ledger()))

    def _wait(self, seconds: float) -> None:
        if isinstance(self.twin.clock, VirtualClock):
            self.twin.clock.advance(seconds)

    def _task(self) -> str:
        name, other = self.rng.sample(_NAMES, 2)
        return self.rng.choice(_TASKS).format(path=f"{name}.py", name=name, other=other)

    def _tool(self, name: str) -> Any:
        def run(given: Mapping[str, Any]) -> str:
            self._wait(self.rng.uniform(1, 15))
            if name == "Read":
                return self._read(str(given.get("file_path", "")))
            return self._code(name.lower(), self.rng.randint(5, 250))

        return run

    def _read(self, path: str) -> str:
        found = self.folder / Path(path).name
        return read_file(found).decode() if found.is_file() else f"{path} does not exist."

    def _code(self, name: str, lines: int) -> str:
        numbers = ((self.rng.randint(1, 999), self.rng.randint(1, 9_999)) for _ in range(lines))
        return "".join(f"{name}_{one} = take({other})\n" for one, other in numbers)
