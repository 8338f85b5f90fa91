"""A session on a real disk beside a plain list: whatever is done to both, they say the same.

The model knows no records, boundaries or files. It has a list of everything that was ever said, and a list
of what is in sight, each of them words; a compaction replaces the second list, an undo brings back the one
before. `test_machine.py` lets hypothesis choose the steps, `walked` a seed.
"""

import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from reliability.scenes import SUMMARY, Desk
from reliability.scratch import in_memory

from everturn import Session
from everturn.decide.compact.values import Compaction
from everturn.history.blocks import text_of
from everturn.history.edits import Undone
from everturn.history.log import Log
from everturn.history.records import Record
from everturn.history.threads import split_threads
from everturn.wire.claude_code_reader import parse_session_file

# What stands for a summary in the lists: its words are the model's.
IN_SHORT = "in short"
STEPS = 12
# A summary must be shorter than what it replaces.
LONG = "Look closely at what the login test has shown. " * 20


class Diverged(AssertionError):
    """The session and the list say different things."""


class Model:
    """The plain lists. `views` are those that compactions replaced, newest last."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.sight: list[str] = []
        self.views: list[tuple[list[str], int]] = []

    def say(self, *words: str) -> None:
        self.said += words
        self.sight += words

    def compact(self, kept: list[str]) -> None:
        """Everything but `kept`, which stands behind the summary, is replaced by it."""
        self.views.append((self.sight, len(kept)))
        self.sight = [IN_SHORT, *kept]

    def undo(self) -> None:
        before, kept = self.views.pop()
        self.sight = before + self.sight[1 + kept :]


class Walk:
    """One session and its model. Every method is one step on both."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.desk = Desk(folder)
        self.model = Model()
        self.steps = 0
        self.faults = 0
        self.files = 0
        self.session = self._opened()

    def _opened(self) -> Session:
        return self.desk.open(fsync="never")

    def _ask(self, *answers: Any, said: Any) -> str:
        self.desk.box.script(*answers)
        return self.session.send(said).text

    # ── steps ────────────────────────────────────────────────────────────────────────────────────

    def append(self) -> None:
        self.steps += 1
        number = len(self.model.said)
        question, answer = f"Question {number}. {LONG}", f"Answer {number}. {LONG}"
        self._ask(answer, said=question)
        self.model.say(question, answer)

    def clear(self) -> None:
        """A tool answers, and after an hour its result is cleared: out of sight for the model, not for us."""
        self.steps += 1
        number = len(self.model.said)
        use = {"content": [{"type": "tool_use", "name": "Read", "input": {}}]}
        self._ask(use, f"Seen {number}.", said=f"Look {number}.")
        self.model.say(f"Look {number}.", f"Seen {number}.")
        self.desk.box.advance(4_000)

    def compact(self) -> None:
        self.steps += 1
        self.desk.box.script(SUMMARY)
        if isinstance(self.session.compact(), Compaction):
            self.model.compact([])
        self._forget_script()

    def compact_up_to(self, share: float) -> None:
        """Up to one of the questions: what comes from it on is kept word for word."""
        self.steps += 1
        asked = [each for each in self._shown() if words(each).startswith(("Question", "Look"))]
        if len(asked) < 2:
            return
        at = asked[1 + int(share * (len(asked) - 1)) % (len(asked) - 1)]
        kept = self.model.sight[self.model.sight.index(words(at)) :]
        self.desk.box.script(SUMMARY)
        if isinstance(self.session.compact(up_to=at.uuid), Compaction):
            self.model.compact(kept)
        self._forget_script()

    def undo(self) -> None:
        self.steps += 1
        if isinstance(self.session.undo(), Undone):
            self.model.undo()

    def resume(self) -> None:
        self.steps += 1
        self.session.close()
        self.session = self._opened()

    def crash(self, share: float) -> None:
        """Gone without a word, in the middle of a line that nobody was told is safe."""
        self.steps += 1
        self.faults += 1
        self.session._runtime.store._held.close()
        data = self.desk.path.read_bytes()
        line = b'{"parentUuid":null,"type":"user","uuid":"never","message":{"role":"user","content":"no"}}'
        # The store begins a line of its own behind one that was cut off.
        starts = b"\n" if data and not data.endswith(b"\n") else b""
        self.desk.path.write_bytes(data + starts + line[: int(share * len(line))])
        self.session = self._opened()

    def fork(self) -> None:
        """The file is copied and the copy goes on; the first one stays as it was."""
        self.steps += 1
        self.session.close()
        before = self.desk.path.read_bytes()
        self.files += 1
        other = self.folder / f"fork-{self.files}.jsonl"
        shutil.copy(self.desk.path, other)
        first, self.desk.path = self.desk.path, other
        self.session = self._opened()
        self.append()
        if first.read_bytes() != before:
            raise Diverged("the session that was forked has changed")

    def _forget_script(self) -> None:
        """A compaction that was not made leaves its summary for the next question."""
        self.desk.box.twin.speaker.clear()

    # ── the comparison ───────────────────────────────────────────────────────────────────────────

    def _shown(self) -> list[Record]:
        return list(self.session.conversation.log.view.records)

    def check(self) -> None:
        log = self.session.conversation.log
        # A summary that was undone is on a branch that was left, once the next compaction was made.
        said = [each for each in spoken(log.records) if each != IN_SHORT]
        self._same("everything that was said", said, self.model.said)
        self._same("what is in sight", spoken(log.view.records), self.model.sight)

    def check_file(self) -> None:
        """What a stranger reads in the file is what the session has."""
        records = split_threads(parse_session_file(self.desk.path.read_bytes()).records).main.records
        self._same("what the file holds", spoken(Log(records).view.records), self.model.sight)

    def _same(self, what: str, found: list[str], expected: list[str]) -> None:
        if found != expected:
            at = next(
                (n for n, (a, b) in enumerate(zip(found, expected, strict=False)) if a != b), len(found)
            )
            raise Diverged(f"{what} differs from the list at {at}: {found[at - 1 : at + 2]}")

    def close(self) -> None:
        self.session.close()


def words(record: Record) -> str:
    if record.compact_summary:
        return IN_SHORT
    return "".join(text_of(block) for block in record.blocks if block.kind == "text")


def spoken(records: Any) -> list[str]:
    """The words of messages; results, bookkeeping and what a compaction brings back are left out."""
    said = (words(record) for record in records if record.kind in ("user", "assistant"))
    return [each for each in said if each]


def walked(seed: int) -> Counter[str]:
    """Steps chosen by a seed."""
    rng = random.Random(f"walk {seed}")
    counts: Counter[str] = Counter()
    with TemporaryDirectory(prefix="everturn-walk-", dir=in_memory()) as folder:
        walk = Walk(Path(folder))
        acts: tuple[Callable[[], None], ...] = (
            walk.append, walk.append, walk.clear, walk.compact, lambda: walk.compact_up_to(rng.random()),
            walk.undo, walk.resume, lambda: walk.crash(rng.random()), walk.fork,
        )  # fmt: skip
        for _ in range(STEPS):
            rng.choice(acts)()
            walk.check()
        walk.check_file()
        counts.update(type(each.edit).__name__ for each in walk.session.conversation.log.records if each.edit)
        walk.close()
        counts["steps"] += walk.steps
        counts["faults"] += walk.faults
    return counts
