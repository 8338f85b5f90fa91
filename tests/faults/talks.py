"""Sessions as they are appended, batch by batch: turns, clearings, compactions whole and partial, an undo.

Equal seeds give equal sessions. Every record is one that we would spell ourselves, in letters of one to four
bytes, so that a cut can fall inside any of them.
"""

import json
import random
from collections.abc import Sequence

import msgspec

from everturn.history.blocks import Block, result_block, text_block
from everturn.history.edits import Cleared, Compacted, KeptSegment, Pinned, Undone
from everturn.history.log import Log
from everturn.history.records import Record, RecordKind, ReplyMeta, Usage
from everturn.history.threads import split_threads

WORDS = ("parse", "the", "file", "größer", "解析器", "🚀", "\\n", '"quoted"', "\u2028", "naïve")
Batch = tuple[Record, ...]


class Talk:
    """A conversation in the making. Each method returns one batch, already part of `log`."""

    def __init__(self, seed: int, name: str = "t") -> None:
        self.random = random.Random(seed)
        self.log = Log()
        self.batches: list[Batch] = []
        self._name = name
        self._count = 0

    def _record(self, kind: RecordKind, **fields: object) -> Record:
        self._count += 1
        last = self.log.records[-1].uuid if self.log.records else ""
        facts = {"parent": last, "timestamp": f"2026-01-05T10:{self._count % 60:02d}:00.000Z", "session": "s"}
        record = Record(kind=kind, uuid=f"{self._name}{self._count}", **{**facts, **fields})  # type: ignore[arg-type]
        self.log.append(record)
        return record

    def _ended(self, *records: Record) -> Batch:
        self.batches.append(records)
        return records

    def words(self) -> str:
        return " ".join(self.random.choices(WORDS, k=self.random.randint(1, 12)))

    def say(self) -> Batch:
        return self._ended(self._record("user", blocks=(text_block(self.words()),)))

    def work(self) -> Batch:
        """A reply that calls a tool, and the tool's answer, as two appends of one turn in a single write."""
        call = f"c{self._count}"
        use = {"type": "tool_use", "id": call, "name": "Read", "input": {"path": self.words()}}
        block = Block("tool_use", json.dumps(use, ensure_ascii=False).encode(), call, "Read")
        reply = ReplyMeta(f"m{self._count}", "claude-opus-4-6", "tool_use", Usage(100, 0, 0, 20))
        first = self._record("assistant", blocks=(text_block(self.words()), block), reply=reply)
        return self._ended(first, self._record("user", blocks=(result_block(call, self.words()),)))

    def clear(self) -> Batch:
        shown = (block.call for record in self.log.view.records for block in record.blocks if block.is_result)
        edit = Cleared(tuple(shown)[:1], "made room")
        return self._ended(self._record("system", subtype="microcompact_boundary", edit=edit))

    def pin(self) -> Batch:
        return self._ended(self._record("system", subtype="everturn_pinned", edit=Pinned(self.words())))

    def compact(self) -> Batch:
        """Boundary, summary, and what is brought back; sometimes the newest records are kept."""
        last = self.log.records[-1].uuid
        newest = [record.uuid for record in self.log.view.records if record.kind == "user"][-1]
        name = f"{self._name}{self._count + 2}"
        kept = (
            KeptSegment(newest, name, self.log.view.records[-1].uuid) if self.random.random() < 0.4 else None
        )
        edit = Compacted("auto", 150_000, logical_parent=last, kept=kept)
        boundary = self._record("system", parent="", subtype="compact_boundary", edit=edit)
        said = (text_block("In short: " + self.words()),)
        summary = self._record("user", blocks=said, compact_summary=True, transcript_only=True)
        return self._ended(boundary, summary, *(self._restored() for _ in range(self.random.randint(0, 3))))

    def _restored(self) -> Record:
        payload = {"type": "file", "content": self.words()}
        block = Block("attachment", json.dumps(payload, ensure_ascii=False).encode())
        return self._record("attachment", subtype="file", blocks=(block,))

    def undo(self) -> Batch:
        boundary = self.log.view.boundary
        edit = Undone(boundary.uuid if boundary else "none", "asked for")
        return self._ended(self._record("system", subtype="everturn_undone", edit=edit))


def talk(seed: int, length: int) -> tuple[Batch, ...]:
    """So many batches; every third one is a compaction."""
    made = Talk(seed)
    made.say()
    made.work()
    steps = (made.say, made.work, made.clear, made.pin, made.undo)
    while len(made.batches) < length:
        made.compact()
        for step in made.random.choices(steps, k=2):
            step()
    return tuple(made.batches[:length])


def seen(records: Sequence[Record]) -> tuple[object, ...]:
    """What the model would see of these records, in a form that can be compared."""
    view = Log(split_threads(records).main.records).view
    shown = tuple(msgspec.structs.replace(record, raw=b"") for record in view.records)
    return shown, tuple(view.cleared), view.pins, view.stale


def flat(batches: Sequence[Batch]) -> tuple[Record, ...]:
    return tuple(record for batch in batches for record in batch)
