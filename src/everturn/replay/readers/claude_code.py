"""Claude Code's session JSONL, read by `wire/claude_code_reader.py` and split by `history/threads.py`. A file
that another program has joined or sorted is put in order first (`record_order.py`).
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from everturn.history.records import Record
from everturn.history.threads import split_threads
from everturn.replay.readers.record_order import restore_order, separate_sessions
from everturn.replay.readers.values import Reader, RecordedConversation, SourceFile
from everturn.session.transcripts import parse_whole_file
from everturn.wire.claude_code_reader import BOOKKEEPING, looks_like_a_session, parse_session_file
from everturn.wire.line_repair import describe_problems

# Enough lines to recognise a session: some start with dozens of snapshots.
_LOOKED_AT: Final = 256 * 1024
_TYPED: Final = re.compile(rb'"type": ?"(?:user|assistant|system|progress|attachment)"')
_LINKED: Final = re.compile(rb'"(?:parentUuid|sessionId|leafUuid|messageId)": ?')


def _recognises(source: SourceFile) -> bool:
    start = source.data[:_LOOKED_AT]
    if _LINKED.search(start) is None:
        return False
    bookkeeping = any(b'"%s"' % kind.encode() in start for kind in BOOKKEEPING)
    if _TYPED.search(start) is None and not bookkeeping:
        return False
    return looks_like_a_session(parse_session_file(start[: start.rfind(b"\n") + 1] or start).lines)


def _conversations(source: SourceFile) -> Iterator[RecordedConversation]:
    transcript = parse_whole_file(source.data, source.state)
    sessions = separate_sessions(transcript.records)
    # What the file has lost belongs to no session; it is told once.
    flaws = describe_problems(transcript.flaws)
    for session, records in sessions.items():
        if (found := _conversation(records, flaws, session if len(sessions) > 1 else "")) is not None:
            yield found
            flaws = ()


def _conversation(records: Sequence[Record], flaws: tuple[str, ...], key: str) -> RecordedConversation | None:
    """The threads of one session; None if nobody says anything in it."""
    ordered = restore_order(records)
    found = split_threads(ordered.records)
    every = (found.main, *found.sidechains) if found.main.records else found.sidechains
    spoken = tuple(t for t in every if any(r.kind in ("user", "assistant") for r in t.records))
    if not spoken:
        return None
    notes = (*flaws, *filter(None, (ordered.note,)), *(note.what for t in spoken for note in t.notes))
    return RecordedConversation(spoken, key, notes, flaws=flaws)


CLAUDE_CODE: Final = Reader("claude-code", _recognises, _conversations)


class Parent(msgspec.Struct, frozen=True):
    """The session that started a sub-agent, and the id of the sub-agent."""

    session: str
    agent: str


class _Link(msgspec.Struct):
    sidechain: bool = msgspec.field(name="isSidechain", default=False)
    session: str = msgspec.field(name="sessionId", default="")
    agent: str = msgspec.field(name="agentId", default="")


_read_link = msgspec.json.Decoder(_Link).decode


def parent_of(start: bytes) -> Parent | None:
    """Read from the first lines of a file; None if it is not the file of a sub-agent (FORMATS 1.8)."""
    for line in start.split(b"\n"):
        try:
            link = _read_link(line)
        except (msgspec.DecodeError, RecursionError):
            continue
        if link.session:
            return Parent(link.session, link.agent) if link.sidechain and link.agent else None
    return None
