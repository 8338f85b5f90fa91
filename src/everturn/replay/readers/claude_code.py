"""Claude Code's session JSONL, read by `wire/claude_code_reader.py` and split by `history/threads.py`."""

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from everturn.history.threads import split_threads
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
    found = split_threads(transcript.records)
    every = (found.main, *found.sidechains) if found.main.records else found.sidechains
    spoken = tuple(t for t in every if any(r.kind in ("user", "assistant") for r in t.records))
    flaws = describe_problems(transcript.flaws)
    notes = (note.what for thread in spoken for note in thread.notes)
    if spoken:
        yield RecordedConversation(spoken, notes=(*flaws, *notes), flaws=flaws)


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
