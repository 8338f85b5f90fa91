"""A session on a real disk beside a plain list: whatever is done to both, they say the same.

The model knows no records, boundaries or files. It has a list of everything that was said, and a list of
what is in sight, each of them words; a compaction replaces the second list, an undo brings back the one
before, and a rewind both as they were. `test_machine.py` lets hypothesis choose the steps, `walked` a seed.
"""

import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterable
from copy import deepcopy
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from reliability.findings import WITHOUT_COMPACTED_ENDS, WITHOUT_PINS, WITHOUT_RETURNS
from reliability.scenes import SUMMARY, Desk
from reliability.scratch import in_memory

from everturn import Session
from everturn.decide.compact.values import Compaction
from everturn.history.blocks import text_of
from everturn.history.edits import Undone
from everturn.history.log import Log
from everturn.history.records import Record
from everturn.history.threads import split_threads
from everturn.session.hooks.run import CallbackHook, Hooks
from everturn.wire.claude_code_reader import parse_session_file

# What stands for a summary in the lists: its words are the model's.
IN_SHORT = "in short"
STEPS = 12
REPLIES = ("Answer", "Seen")
# Of the branches, that which was left last.
LAST = 0.999_999
# How often a hook has something to say.
SPEAKS = 0.5
# A summary must be shorter than what it replaces.
LONG = "Look closely at what the login test has shown. " * 20


class Diverged(AssertionError):
    """The session and the list say different things."""


# A view that a compaction replaced, how many of its messages were kept, the last of them, and its moment.
Past = tuple[list[str], int, str, "Moment | None"]
# What was said, what was in sight, and the views before.
Moment = tuple[list[str], list[str], list[Past]]


class Model:
    """The plain lists. `views` are those that compactions replaced, newest last."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.sight: list[str] = []
        self.views: list[Past] = []
        # What was there before each message, and after it, to go back to.
        self.before: dict[str, Moment] = {}
        self.after: dict[str, Moment] = {}
        # What was there when it was said, and under each compaction that has kept it last.
        self.moments: dict[str, list[Moment]] = {}
        # What was said under a compaction that was undone since: it stands in another view now.
        self.moved: set[str] = set()
        # The pins that held when a question was asked.
        self.pins: dict[str, list[str]] = {}

    def copy(self) -> "Model":
        return deepcopy(self)

    def _now(self) -> Moment:
        return self.said, self.sight, list(self.views)

    def say(self, *words: str) -> None:
        for each in words:
            self.before[each] = self._now()
            self.said, self.sight = [*self.said, each], [*self.sight, each]
            self.after[each] = self._now()
            self.moments[each] = [self.after[each]]
            # The same words may have been said on a branch that was left.
            self.moved.discard(each)

    def rewind(self, moment: Moment) -> None:
        self.said, self.sight, views = moment
        self.views = list(views)
        # An undo that is left behind counts no more, nor does a compaction.
        for end, moments in self.moments.items():
            self.after[end] = next(filter(self._is_in_force, reversed(moments)), moments[0])

    def _is_in_force(self, moment: Moment) -> bool:
        """Whether every compaction of that moment is one of now."""
        return moment[2] == self.views[: len(moment[2])]

    def compact(self, kept: list[str], *, is_first: bool = False) -> None:
        """Everything but `kept`, which stands behind the summary or in front of it, is replaced by it. Who
        goes back to the last of what stands behind it keeps the summary."""
        end = kept[-1] if kept and not is_first else ""
        self.views.append((self.sight, len(kept), end, self.after.get(end)))
        self.sight = [*kept, IN_SHORT] if is_first else [IN_SHORT, *kept]
        if end:
            self.after[end] = self._now()
            self.moments.setdefault(end, []).append(self.after[end])

    def undo(self) -> None:
        before, kept, end, after = self.views.pop()
        self.moved.update(self.sight[1 + kept :])
        self.sight = before + self.sight[1 + kept :]
        if after:
            self.after[end] = after


class Walk:
    """One session and its model. Every method is one step on both. Hooks add words where `speaks` says so:
    when it begins, at a question, behind a compaction. They are no messages, so the model has none."""

    def __init__(self, folder: Path, speaks: Callable[[], bool] = lambda: False) -> None:
        self.folder = folder
        self.speaks = speaks
        call = self._hook
        self.hooks = Hooks((CallbackHook("SessionStart", call), CallbackHook("UserPromptSubmit", call)))
        self.desk = Desk(folder)
        self.model = Model()
        # The lists as they were when a branch was left, by the message at its end.
        self.left: dict[str, Model] = {}
        # The pins that held then, and of each pin what was said before it.
        self.left_pins: dict[str, list[str]] = {}
        self.pinned: dict[str, list[str]] = {}
        self.steps = 0
        self.faults = 0
        self.files = 0
        self.session = self._opened()

    def _opened(self) -> Session:
        return self.desk.open(fsync="never", hooks=self.hooks)

    def _hook(self, _: Any) -> str:
        return "The build is red." if self.speaks() else ""

    def _ask(self, *answers: Any, said: Any) -> str:
        self.model.pins[said] = self._pins()
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
        if at := self._question(share):
            kept = self.model.sight[self.model.sight.index(words(at)) :]
            self._compact_part(kept, up_to=at.uuid)

    def compact_from(self, share: float) -> None:
        """From one of the questions on: what comes before it is kept word for word."""
        if at := self._question(share):
            kept = self.model.sight[: self.model.sight.index(words(at))]
            self._compact_part(kept, from_=at.uuid)

    def _compact_part(self, kept: list[str], **where: str) -> None:
        self.desk.box.script(SUMMARY)
        if isinstance(self.session.compact(**where), Compaction):
            self.model.compact(kept, is_first="from_" in where)
        self._forget_script()

    def _question(self, share: float, *, is_hidden: bool = False) -> Record | None:
        """One of the questions in sight, but the first; None if there are too few. `is_hidden`: also of those
        that were summarized."""
        self.steps += 1
        records = self.session.conversation.log.records if is_hidden else self._shown()
        asked = [each for each in records if words(each).startswith(("Question", "Look"))]
        return asked[1 + int(share * (len(asked) - 1)) % (len(asked) - 1)] if len(asked) > 1 else None

    def rewind(self, share: float, *, is_hidden: bool = False) -> str:
        """Back to before a question; what came after it is left behind, in the file too. Returns its name."""
        if not (at := self._question(share, is_hidden=is_hidden)):
            return ""
        question = words(at)
        left = self._rewind(at.uuid)
        self.model.rewind(self.model.before[question])
        self._has_pins(self.model.pins[question])
        return left

    def _rewind(self, uuid: str) -> str:
        before, pins = self.model.copy(), self._pins()
        done = self.session.rewind(uuid)
        if gone := [each for each in pins if each not in self._pins() and each not in done.pins]:
            raise Diverged(f"a rewind left pins behind and did not say so: {gone}")
        if done.left:
            self.left[done.left], self.left_pins[done.left] = before, pins
        return done.left

    def return_to_branch(self, share: float) -> None:
        """Back to the end of a branch that was left behind: all is as it was when it was left last, with its
        compactions, undos and pins."""
        if branches := [each.uuid for each in self.session.branches() if each.uuid in self.left]:
            self._return_to(branches[int(share * len(branches))])

    def _return_to(self, branch: str) -> None:
        self.steps += 1
        there, pins = self.left[branch].copy(), self.left_pins[branch]
        self._rewind(branch)
        self.model = there
        self._has_pins(pins)

    def pin(self) -> None:
        self.steps += 1
        text = f"Rule {len(self.pinned)}."
        self.session.pin(text)
        self.pinned[text] = list(self.model.said)

    def _pins(self) -> list[str]:
        return [pin.text for pin in self.session.conversation.log.view.pins]

    def _has_pins(self, expected: list[str]) -> None:
        if lost := [each for each in expected if each not in self._pins()]:
            raise Diverged(f"pins that held there are lost: {lost}")

    def rewind_to_reply(self, share: float) -> None:
        """Back to behind a reply; to the last one, nothing is left behind."""
        self.steps += 1
        replies = self._replies(self._shown())
        if replies:
            at = replies[-1 - int(share * len(replies))]
            self._rewind(at.uuid)
            # An undo since then stays, if nothing was said after it.
            if words(at) != self.model.said[-1]:
                self.model.rewind(self.model.after[words(at)])

    def _replies(self, records: Iterable[Record]) -> list[Record]:
        said = ((each, words(each)) for each in records)
        return [each for each, what in said if what.startswith(REPLIES) and what not in self.model.moved]

    def rewind_to_hidden(self, share: float) -> None:
        """Back to behind a reply that is in no view any more. A compaction that had kept it last holds again,
        unless a hook's words were the end of what it kept."""
        self.steps += 1
        shown = {each.uuid for each in self._shown()}
        log = self.session.conversation.log.records
        replies = self._replies(each for each in log if each.uuid not in shown)
        ends = {end for _, _, end, _ in self.model.views}
        if replies := [each for each in replies if words(each) in ends] or replies:
            at = replies[int(share * len(replies))]
            self._rewind(at.uuid)
            self.model.rewind(self.model.after[words(at)])

    def there_and_back(self, share: float) -> None:
        """Opened again, compacted twice, and back behind both."""
        self.resume()
        self.compact_up_to(share)
        self.append()
        self.compact()
        self.rewind_to_hidden(share)
        self.append()

    def leave_and_return(self, order: Callable[[list[Callable[[], None]]], None], share: float) -> None:
        """Some things are done behind the last reply, and the branch that they are on is left twice."""
        acts = [self.undo, self.pin, self.undo, lambda: self.compact_up_to(share), self.compact]
        order(acts)
        for act in acts[:3]:
            act()
        for _ in range(2):
            self.rewind(share)
            self.return_to_branch(LAST)

    def leave_compacted(self, order: Callable[[list[Callable[[], None]]], None], share: float) -> None:
        """A compaction that nothing is said behind, with what is done around it, and the branch that it is on
        is left twice, also for a message that it has summarized."""
        compactions: list[Callable[[], None]] = [
            self.compact, lambda: self.compact_up_to(share), lambda: self.compact_from(share),
        ]  # fmt: skip
        order(compactions)
        acts = [compactions[0], self.pin, self.pin, self.resume, self.undo, compactions[1]]
        order(acts)
        for act in acts[:4]:
            act()
        for _ in range(2):
            # What was left last need not be a branch of its own: another one may have gone on from there.
            if left := self.rewind(share, is_hidden=True):
                self._return_to(left)
                self.check()

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
        for text in self._pins():
            before = self.pinned[text]
            self._same(f"what was said before {text!r}", self.model.said[: len(before)], before)

    def check_file(self) -> None:
        """What a stranger reads in the file is what the session has."""
        records = split_threads(parse_session_file(self.desk.path.read_bytes()).records).main.records
        view = Log(records).view
        self._same("what the file holds", spoken(view.records), self.model.sight)
        self._same("the pins that the file holds", [pin.text for pin in view.pins], self._pins())

    def _same(self, what: str, found: list[str], expected: list[str]) -> None:
        if found != expected:
            at = next(
                (n for n, (a, b) in enumerate(zip(found, expected, strict=False)) if a != b), len(found)
            )
            raise Diverged(f"{what} differs from the list at {at}: {found[max(0, at - 1) : at + 2]}")

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
        walk = Walk(Path(folder), lambda: rng.random() < SPEAKS)
        acts: tuple[Callable[[], object], ...] = (
            walk.append, walk.append, walk.clear, walk.compact, lambda: walk.compact_up_to(rng.random()),
            lambda: walk.compact_from(rng.random()), lambda: walk.rewind(rng.random()),
            lambda: walk.rewind_to_reply(rng.random()), lambda: walk.rewind_to_hidden(rng.random()),
            lambda: walk.there_and_back(rng.random()),
            walk.undo, walk.resume, lambda: walk.crash(rng.random()), walk.fork,
        )  # fmt: skip
        if seed not in WITHOUT_RETURNS:
            acts = (*acts, lambda: walk.return_to_branch(rng.random()))
        if seed not in WITHOUT_PINS:
            acts = (*acts, walk.pin, lambda: walk.leave_and_return(rng.shuffle, rng.random()))
        if seed not in WITHOUT_COMPACTED_ENDS:
            acts = (*acts, lambda: walk.leave_compacted(rng.shuffle, rng.random()))
        for _ in range(STEPS):
            rng.choice(acts)()
            walk.check()
            walk.check_file()
        counts.update(type(each.edit).__name__ for each in walk.session.conversation.log.records if each.edit)
        walk.close()
        counts["steps"] += walk.steps
        counts["faults"] += walk.faults
    return counts
