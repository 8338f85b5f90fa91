"""One conversation by chance, from its file to its end: everything that can be done with it, done to it.

A file (`transcripts.py`) is opened in a store on a disk in memory and gone on with: questions, results right
and wrong, odd records, compactions of every form, undos, crashes that tear the last line, rewinds, pauses.
Each request is judged as it leaves (`provider.py`); after each restart, and at the end, the view is what it
was and nothing that was said is lost (`hidden.py`).
"""

import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import count
from typing import Any

import msgspec
from engine.held import head, model_of
from engine.random_sessions import NAMES, small
from faults.disks import Inode, MemoryDisk
from presets import compacting
from reliability.hidden import Everything, Lost
from reliability.provider import NO_SUMMARY, Provider
from reliability.transcripts import Written, written

from everturn.decide.compact.chain import plan_undo
from everturn.decide.compact.settings import Strategy
from everturn.decide.compact.values import CompactionRequest
from everturn.engine import Conversation, ConversationSettings
from everturn.errors import EverturnError, StoreError
from everturn.history.blocks import Block, block_from_fields, result_block, text_block
from everturn.history.edits import Undone
from everturn.history.log import Log
from everturn.history.records import Record, make_edit_record
from everturn.history.threads import split_threads
from everturn.measure.capabilities import ANTHROPIC, EXTENDED_TWIN, PLAIN
from everturn.measure.thresholds import ThresholdSettings
from everturn.session.conversation_runner import ConversationRunner
from everturn.session.estimated_costs import EstimatedCosts
from everturn.session.store import JsonlStore
from everturn.session.upstream import UpstreamError
from everturn.view.key_parameters import KeyParameters, TtlChoice
from everturn.wire.claude_code_reader import parse_session_file
from everturn.wire.claude_code_writer import encode_record

PATH = "/folder/session.jsonl"
MODELS = ("claude-opus-4-6", "claude-haiku-4-5", "claude-opus-5", "claude-sonnet-5-5")
WAYS: tuple[Strategy, ...] = ("notes", "fork", "direct", "provider", "extractive")
MOST_STEPS = 6
HEAD = head(system="Read before you write.", tools=("Bash", "Edit", "Read"))
COSTS = {name: EstimatedCosts(model_of(name)) for name in MODELS}
START = datetime.fromisoformat("2026-11-15T00:00:00+00:00")


class Unwatched(ConversationRunner):
    """Without the net of `cache_net.py`, which knows no repairs; judged by the provider instead."""

    is_watched = False


class OtherView(AssertionError):
    """What would be sent is not what it should be: after a restart, or because of an error."""


class Trial:
    """One conversation. `counts` says what happened in it."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.start = self._first(seed)
        self.disk = MemoryDisk({PATH: Inode(self.start.data)} if self.start.lines else {})
        self.provider = Provider(self.rng)
        self.setting = self._setting()
        self.said = set(self.start.said)
        self.now = START
        self.counts: Counter[str] = Counter()
        self._ids = count(1)
        self._open()

    def _first(self, seed: int) -> Written:
        return written(seed)

    def _setting(self) -> ConversationSettings:
        name = self.rng.choice(MODELS)
        able = self.rng.choice((ANTHROPIC, ANTHROPIC, EXTENDED_TWIN, PLAIN))
        percent = self.rng.choice((None, 1.0, 2.0, 5.0))
        options = msgspec.structs.replace(
            small(self.rng.choice(NAMES)), thresholds=ThresholdSettings(auto_percent=percent)
        )
        ways = tuple(self.rng.sample(WAYS, self.rng.randrange(1, len(WAYS) + 1)))
        return ConversationSettings(
            model=model_of(name),
            capabilities=able,
            options=compacting(options, *ways),
            costs=COSTS[name],
            preamble=HEAD,
            parameters=KeyParameters(TtlChoice("5m", "the trial says so")),
            fields={"max_tokens": 4_000},
            transcript=PATH,
        )

    def _open(self) -> None:
        self.store = JsonlStore.open(PATH, io=self.disk, fsync="never")
        self.runner = Unwatched(
            Conversation(self.setting, split_threads(self.store.records).main.records),
            self.provider.send,
            clock=self.clock,
            new_id=lambda: f"n{next(self._ids):05d}",
            handler=self.provider,
            keep=self._keep,
        )

    def clock(self) -> datetime:
        return self.now

    def _keep(self, records: Any) -> None:
        self.store.append(records)
        self.said.update([block.raw for record in records for block in record.blocks])

    # ── the run ──────────────────────────────────────────────────────────────────────────────────

    def run(self) -> Counter[str]:
        acts: tuple[Callable[[], None], ...] = (
            self.ask, self.ask, self.ask, self.answer, self.answer, self.odd, self.compact, self.compact,
            self.undo, self.resume, self.crash, self.rewind, self.pause,
        )  # fmt: skip
        for _ in range(self.rng.randrange(1, MOST_STEPS)):
            act = self.rng.choice(acts)
            self.counts[act.__name__] += 1
            act()
        self.ask()
        self.look()
        self.counts["requests"] += self.provider.requests
        self.counts["faults"] += self.provider.faults
        return self.counts

    def look(self) -> None:
        """As a stranger finds it: the same view, nothing lost, and no error that became a summary."""
        data = self.disk.files[PATH].data
        if not data.startswith(self.start.data):
            raise Lost("the file no longer begins with what it held at first")
        found = Everything(parse_session_file(data).records)
        if shown(found.log) != shown(self.runner.conversation.log):
            raise OtherView("the file gives another view than the session has")
        for place, number in found.places_of(self.said, self.provider.files).items():
            self.counts[f"blocks {place}"] += number
        self.counts.update(type(record.edit).__name__ for record in found.records if record.edit)
        for record in found.records:
            if record.compact_summary and any(NO_SUMMARY in block.raw for block in record.blocks):
                raise OtherView(f"an error became the summary {record.uuid}")

    # ── what can be done ─────────────────────────────────────────────────────────────────────────

    def call(self) -> None:
        # Cancelled, a compaction ends the call that it stood before, as Ctrl-C does.
        with suppress(UpstreamError, StoreError, KeyboardInterrupt):
            self.runner.call()
        if self.store.read_only_reason:
            raise OtherView(f"the store takes nothing more: {self.store.read_only_reason}")

    def ask(self) -> None:
        self.runner.say(f"Question {next(self._ids)}. " + "Look closely. " * self.rng.randrange(20))
        self.call()

    def answer(self) -> None:
        """Results of the last calls: all, some, twice, or of a call that nobody made."""
        calls, self.provider.calls = list(self.provider.calls), []
        if self.rng.random() < 0.3:
            calls = [call for call in [*calls, *calls[:1], "toolu_nobody"] if self.rng.random() < 0.6]
        if not calls:
            # A model that has answered is not asked again: newer ones take no words put into their mouth.
            return self.ask()
        sizes = (3, 30, 400)
        self.runner.put(tuple(result_block(each, f"{each} " * self.rng.choice(sizes)) for each in calls))
        return self.call()

    def odd(self) -> None:
        kinds: tuple[Block, ...] = (
            text_block(" "),
            text_block("\u2028 …"),
            block_from_fields({"type": "from_the_future", "text": f"f{next(self._ids)}"}),
            block_from_fields({"type": "thinking", "thinking": "stray", "signature": "s"}),
            block_from_fields({"type": "tool_use", "id": "toolu_stray", "name": "Read", "input": {}}),
            result_block("toolu_nobody", "nobody asked"),
        )
        self.runner.put(tuple(self.rng.sample(kinds, self.rng.randrange(1, 4))))

    def compact(self) -> None:
        shown = [record.uuid for record in self.runner.conversation.log.view.records]
        form = self.rng.choice(("full", "full", "from", "up_to"))
        at = self.rng.choice([*shown, "nowhere"]) if form != "full" else ""
        with suppress(EverturnError):
            found = self.runner.compact(CompactionRequest(trigger="manual", form=form, at=at))
            self.counts[f"asked: {type(found).__name__}"] += 1

    def undo(self) -> None:
        log = self.runner.conversation.log
        edit = plan_undo(log.view)
        if isinstance(edit, Undone):
            self.counts["undone"] += 1
            self.runner.add(
                make_edit_record(edit, uuid=f"n{next(self._ids):05d}", after=log.records[-1], at=self.now)
            )

    def pause(self) -> None:
        self.now += timedelta(seconds=self.rng.choice((30, 301, 3_700)))

    # ── restarts ─────────────────────────────────────────────────────────────────────────────────

    def resume(self) -> None:
        """Closed and opened again: the same view."""
        before = shown(self.runner.conversation.log)
        self.store.close()
        self._open()
        now = shown(self.runner.conversation.log)
        if now != before:
            raise OtherView(f"resumed with another view: {len(before)} records before, {len(now)} after")

    def crash(self) -> None:
        """Dead in the middle of a write that nobody was told of: a piece of a line is left."""
        before = shown(self.runner.conversation.log)
        inode = self.disk.files[PATH]
        line = encode_record(self._user("This never got to its end."))
        # The store begins a line of its own behind one that was cut off.
        starts = b"\n" if inode.data and not inode.data.endswith(b"\n") else b""
        inode.data += starts + line[: self.rng.randrange(len(line))]
        self.disk = self.disk.after_death()
        self._open()
        if shown(self.runner.conversation.log) != before:
            raise OtherView("after a crash the view is another one")

    def rewind(self) -> None:
        """The person goes back to an earlier record and says something else."""
        records = [each for each in self.runner.conversation.log.view.records if each.kind == "user"]
        if not records:
            return
        made = self._user("Let us do it another way.", parent=self.rng.choice(records).parent)
        self._keep([made])
        self.store.close()
        self._open()

    def _user(self, text: str, parent: str = "") -> Record:
        stamp = self.now.isoformat()
        name = f"n{next(self._ids):05d}"
        return Record(kind="user", uuid=name, parent=parent, timestamp=stamp, blocks=(text_block(text),))


def shown(log: Log) -> list[tuple[Any, ...]]:
    """The view in a form that can be compared: a record that was read again has bytes of its own."""
    records = log.view.records
    return [(each.kind, each.uuid, each.compact_summary, each.blocks, each.edit) for each in records]


def held(seed: int) -> Counter[str]:
    return Trial(seed).run()
