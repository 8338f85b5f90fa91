"""Session notes, taken in the background by a forked request in its own thread (SM-3).

`decide/notes/` decides whether and when to take notes and how long to wait. The conversation's thread starts
a fork (`consider`) and collects its result (`settle`); it does not block in between. A fork that was
abandoned cannot change the notes, even if its answer arrives later.
"""

import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, Literal

import msgspec

from everturn.decide.compact.settings import CompactSettings
from everturn.decide.events import Event, EventContext, NotesRejected, NotesTaken
from everturn.decide.notes.checks import find_notes_problem
from everturn.decide.notes.document import Notes, NotesState, new_notes, read_notes, spell_notes
from everturn.decide.notes.extraction import NotUpdated, apply_fork_edits, edit_tool_among, extraction_message
from everturn.decide.notes.settings import NotesSettings
from everturn.decide.notes.triggers import (
    Extract,
    count_record,
    is_dead,
    mark_compacted,
    mark_extracted,
    should_extract,
    should_wait,
)
from everturn.engine import Turn
from everturn.errors import UpstreamError
from everturn.history.records import Record, Usage
from everturn.measure.capabilities import Capabilities
from everturn.measure.tokens import rough
from everturn.safe_files import read_file
from everturn.session.private_files import replace_file
from everturn.session.upstream import Send, clamp_usage, parse_reply
from everturn.view.forks import make_fork
from everturn.view.requests import build_fork_request

WaitMode = Literal["none", "a while"]


class _Job:
    """One fork: the state it started from, and its result."""

    def __init__(
        self, began: NotesState, covers: str, tokens: int, started: float, moment: EventContext
    ) -> None:
        self.began, self.covers, self.tokens = began, covers, tokens
        self.started, self.moment = started, moment
        self.done = threading.Event()
        self.body = ""
        self.why_not = ""
        self.usage: Usage | None = None


class NoteTaker:
    """The notes of one session. Call it from one thread; the forks run in their own threads."""

    def __init__(
        self,
        path: str,
        send: Send,
        *,
        session: str,
        records: Iterable[Record],
        capabilities: Capabilities,
        settings: NotesSettings,
        compact: CompactSettings,
        tell: Callable[[Event], None],
        remark: Callable[[str], None] = lambda _: None,
        paid: Callable[[Usage], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.path = path
        self._send = send
        self._capabilities = capabilities
        self._settings = settings
        self._compact = compact
        self._tell = tell
        self._remark = remark
        self._paid = paid
        self._clock = clock
        self._job: _Job | None = None
        # After notes that could not be used, the next attempt waits until the context has this many tokens.
        self._not_below = 0
        self._has_considered = False
        self.notes = self._read(records, session)
        self._state = msgspec.structs.replace(self.notes.state, session=session)

    def _read(self, records: Iterable[Record], session: str) -> Notes:
        """The notes in the file, if they are notes of this conversation; otherwise new ones."""
        try:
            found = read_notes(read_file(self.path).decode("utf-8", "replace"))
        except FileNotFoundError:
            return new_notes()
        except OSError as why:
            self._remark(_ignored(self.path, f"it cannot be read: {why.strerror or why}"))
            return new_notes()
        if problem := find_notes_problem(found, records, session):
            self._remark(_ignored(self.path, problem))
            return new_notes()
        if found.is_changed:
            self._remark(
                f"the notes in {self.path} were changed after the session wrote them, and are used as they "
                "are now; if nobody meant to change them, delete the file, and new notes are taken"
            )
        return found

    def heard(self, record: Record) -> None:
        self._state = count_record(self._state, record)

    def shrunk(self, tokens: int) -> None:
        """The context was compacted. It is written down at once: growth that is measured from the old size
        after the session was opened again would leave new words without notes for long."""
        self._state = mark_compacted(self._state, tokens)
        self._not_below = 0
        if self._job is not None:
            # It was begun in the larger context.
            self._job.tokens = min(self._job.tokens, tokens)
        if self.notes.state.tokens > self._state.tokens:
            self.notes = Notes(self.notes.body, self._state)
            self._remark(replace_file(self.path, spell_notes(self.notes).encode()))

    def consider(self, turn: Turn, sent_last: str, *, tokens: int, calls: int, moment: EventContext) -> None:
        """After a reply: start a fork that takes notes of what its request held, if notes are due."""
        self.settle()
        if not self._has_considered and tokens < self._state.tokens:
            # Another program has compacted the session since, or it was rewound.
            self.shrunk(tokens)
        self._has_considered = True
        tools = [tool.tool for tool in turn.captured.preamble.tools]
        if self._job is not None or tokens < self._not_below or not edit_tool_among(tools):
            return
        due = should_extract(
            self._state,
            source=moment.source,
            tokens=tokens,
            last_turn_calls=calls,
            settings=self._settings,
            compact=self._compact,
        )
        if isinstance(due, Extract):
            self._job = job = _Job(self._state, sent_last, tokens, self._clock(), moment)
            threading.Thread(target=self._take, args=(job, turn), name="session notes", daemon=True).start()

    def settle(self, patience: WaitMode = "none") -> Notes | None:
        """The current notes, or None. With patience "a while", wait for a running fork, up to a limit."""
        job, since = self._job, self._clock()
        if job is None:
            return self._usable()
        waiting = should_wait(job.started, since, self._clock(), self._settings)
        if patience == "a while" and waiting.seconds:
            job.done.wait(waiting.seconds)
        if job.done.is_set():
            self._job = None
            self._took(job)
        elif is_dead(job.started, self._clock(), self._settings):
            self._job = None
            reason = f"no answer after {self._settings.dead_after.total_seconds():.0f} s; abandoned"
            self._tell(NotesRejected(moment=job.moment, why=reason))
        return self._usable()

    def pay(self) -> None:
        """Pay for notes that have come. They are not used: the session is about to read its file again, and
        may have left what they cover."""
        job, self._job = self._job, None
        if job is not None and job.done.is_set() and job.usage is not None:
            self._paid(job.usage)

    def _usable(self) -> Notes | None:
        return None if self.notes.is_empty else self.notes

    def _took(self, job: _Job) -> None:
        if job.usage is not None:
            self._paid(job.usage)
        problem = job.why_not
        if not problem:
            self._state = mark_extracted(self._state, job.began, covers=job.covers, tokens=job.tokens)
            self.notes = Notes(job.body, self._state)
            problem = replace_file(self.path, spell_notes(self.notes).encode())
        if problem:
            self._not_below = job.tokens + self._settings.growth
            self._tell(NotesRejected(moment=job.moment, why=problem))
            return
        seconds = self._clock() - job.started
        self._tell(NotesTaken(moment=job.moment, covers=job.covers, tokens=rough(job.body), seconds=seconds))

    # ── runs in the fork's thread ────────────────────────────────────────────────────────────────

    def _take(self, job: _Job, turn: Turn) -> None:
        try:
            self._ask(job, turn)
        except UpstreamError as problem:
            job.why_not = f"the call for notes failed: {problem}"
        except Exception as problem:
            # Only the type: the message may hold private text.
            job.why_not = f"taking notes raised {type(problem).__name__}"
        finally:
            job.done.set()

    def _ask(self, job: _Job, turn: Turn) -> None:
        asked = extraction_message(self.notes, self.path, self._settings)
        request: Any = build_fork_request(make_fork(turn.captured, (asked,)), self._capabilities)
        answered = self._send(request.to_bytes(), turn.betas)
        response = parse_reply(answered).response
        job.usage = clamp_usage(response.reply.usage or Usage())
        found = apply_fork_edits(self.notes.body, response.blocks, self.path)
        if isinstance(found, NotUpdated):
            job.why_not = found.why
        else:
            job.body = found.body


def _ignored(path: str, problem: str) -> str:
    return (
        f"the notes in {path} are ignored: {problem}; new notes are taken and replace the file, "
        "so copy it first if you need it"
    )
