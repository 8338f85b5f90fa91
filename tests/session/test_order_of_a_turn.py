"""The life of one turn, in its whole order, as it can be seen from outside (OV-1)."""

from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from scripted_twin import scripted_options

from everturn import Session, Tool, engine
from everturn.decide.events import CompactionDone
from everturn.decide.notes.settings import NotesSettings
from everturn.history.records import Record
from everturn.measure.thresholds import ThresholdSettings
from everturn.session.hooks.run import CallbackHook, Hooks
from everturn.session.upstream import RawResponse
from everturn.twin.speaker import script_reply
from everturn.twin.testing import TwinForTests
from everturn.twin.upstream import make_twin_send

RULES = "Read a file before you change it, and say honestly what the tests have shown. " * 220
SUMMARY = (
    "<summary>\n1. Primary request and intent: the parser is to be mended, and its tests too. It was read "
    "several times, and what it does with a file of one line is still open.\n</summary>"
)
READ = {"name": "Read", "description": "Reads.", "input_schema": {"type": "object", "properties": {}}}
EVENTS = (
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "Stop",
    "PreCompact",
    "SessionStart",
    "PostCompact",
)


class Watched:
    """A session, and everything that it does to the world, in the order in which it does it."""

    def __init__(self, folder: Path) -> None:
        self.box = TwinForTests(options=scripted_options())
        self.steps: list[str] = []
        self._ids = count(1)
        self._send = make_twin_send(self.box.twin)
        self.file = folder / "parser.py"
        self.file.write_text("def parse(): ...\n" * 20)
        self.session = Session.open(
            folder / "s.jsonl",
            model="claude-haiku-4-5",
            thresholds=ThresholdSettings(auto_percent=12),
            notes=NotesSettings(first=1_000, growth=10**6),
            system=RULES,
            tools=[Tool(READ, self._read)],
            send=self.send,
            roots=[folder],
            hooks=Hooks(tuple(CallbackHook(event, self._hook) for event in EVENTS)),
            listen=self._heard,
            clock=self.box.twin.clock.now,
            new_id=lambda: f"{next(self._ids):08d}",
            fsync="never",
        )
        self._watch()

    def _watch(self) -> None:
        runtime, detector = self.session._runtime, self.session.conversation.detector
        store = runtime.store
        append, before, after = store.append, detector.before_call, detector.after_call

        def kept(records: Sequence[Record]) -> None:
            self.steps.append("keep " + " ".join(map(_kind, records)))
            append(records)

        def recorded(*given: Any) -> Any:
            self.steps.append("record what is sent")
            return before(*given)

        def compared(*given: Any) -> Any:
            self.steps.append("compare the cache")
            return after(*given)

        store.append, detector.before_call, detector.after_call = kept, recorded, compared  # type: ignore[method-assign]
        runtime.after_exchange = self._after_reply(runtime.after_exchange)  # type: ignore[method-assign]

    def _after_reply(self, real: Any) -> Any:
        def after(exchange: Any) -> None:
            self.steps.append("consider notes")
            real(exchange)

        return after

    def send(self, body: bytes, betas: Sequence[str]) -> RawResponse:
        self.steps.append("ask for a summary" if b"Write a summary of" in body else "send")
        return self._send(body, betas)

    def _read(self, given: Any) -> str:
        self.steps.append("run Read")
        return self.file.read_text() + "a line of output\n" * 60

    def _hook(self, payload: Any) -> None:
        self.steps.append(f"hook {payload['hook_event_name']}")

    def _heard(self, event: Any) -> None:
        if isinstance(event, CompactionDone):
            self.steps.append("tell of the compaction")

    def reads(self, turns: int) -> None:
        """Each is some 1,700 tokens, nearly all of it the answer: clearing results does not make room."""
        for _ in range(turns):
            look = {"type": "tool_use", "name": "Read", "input": {"file_path": str(self.file)}}
            self.box.script({"content": [look]}, "Seen. " * 650)
            self.session.send("Look again. " * 20)


def _kind(record: Record) -> str:
    if record.edit is not None:
        return type(record.edit).__name__
    return "summary" if record.compact_summary else record.kind


@pytest.mark.spec("OV-1", "CP-26")
def test_the_whole_order_of_a_turn(tmp_path):
    watched = Watched(tmp_path)
    watched.reads(8)
    watched.box.advance(2 * 3_600)
    watched.box.twin.speaker.add([script_reply(SUMMARY, when="Write a summary")])
    look = {"type": "tool_use", "name": "Read", "input": {"file_path": str(watched.file)}}
    watched.box.script({"content": [look]}, "Mended.")
    watched.steps.clear()
    watched.session.send("Mend it. " + "Here is the story. " * 1_000)
    watched.session.close()
    assert watched.steps == [
        # 1 what was said is appended
        "hook UserPromptSubmit",
        "keep user",
        # 2 micro-compaction: the cache is cold, so old results leave
        "keep Cleared",
        # 3 over the mark: a summary, its records before anything that follows from them
        "hook PreCompact",
        "ask for a summary",
        "hook SessionStart",
        "keep Compacted summary attachment attachment",
        "tell of the compaction",
        "hook PostCompact",
        # 4 the request is recorded and sent
        "record what is sent",
        "send",
        # 6 the answer is appended, the cache compared, notes considered, tools run
        "keep assistant",
        "compare the cache",
        "consider notes",
        "hook PreToolUse",
        "run Read",
        "hook PostToolUse",
        "keep user",
        # and the loop goes on
        "record what is sent",
        "send",
        "keep assistant",
        "compare the cache",
        "consider notes",
        "hook Stop",
    ]


@pytest.mark.spec("OV-1", "CP-26")
def test_too_long_is_withheld_while_a_compaction_makes_room(tmp_path):
    watched = Watched(tmp_path)
    watched.reads(3)
    watched.box.twin.speaker.add([script_reply(SUMMARY, when="Write a summary")])
    watched.box.script("Mended.")
    watched.box.faults("prompt_too_long")
    watched.steps.clear()
    assert watched.session.send("Mend it.").text == "Mended."
    sent = [step for step in watched.steps if not step.startswith("hook")]
    watched.session.close()
    assert sent == [
        "keep user",
        "record what is sent",
        "send",
        "ask for a summary",
        "keep Compacted summary attachment attachment",
        "tell of the compaction",
        "record what is sent",
        "send",
        "keep assistant",
        "compare the cache",
        "consider notes",
    ]


def test_the_order_is_written_down_where_the_engine_begins():
    words = engine.__doc__ or ""
    steps = (
        "micro-compaction",
        "compaction  ",
        "flatten",
        "breakpoints",
        "prediction",
        "snapshot",
        "record_reply",
    )
    places = [words.index(step) for step in steps]
    assert places == sorted(places)
