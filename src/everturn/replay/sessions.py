"""Opens recorded sessions from files and folders, and names the files that cannot be read (RP-1).

A session is its main conversation and those of its sub-agents. Claude Code stores sub-agents in separate
files, beside the session or in a folder with its name. They become threads of the session that started them;
if that is unknown, each is a session. One file can also hold many sessions: `path` then ends in `#` and a
name, and `read_session` accepts such a path.

The file formats: `replay/readers/`.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from decimal import Decimal
from hashlib import blake2b
from pathlib import Path
from typing import Final

import msgspec

from everturn.catalog.places import files_below
from everturn.history.records import Record, record_time
from everturn.history.threads import Thread
from everturn.replay.readers.claude_code import CLAUDE_CODE, Parent, parent_of
from everturn.replay.readers.registry import READERS
from everturn.replay.readers.values import RecordedConversation, SourceFile
from everturn.safe_files import MAX_SESSION_BYTES, open_stream, read_file
from everturn.session.transcripts import read_state_beside
from everturn.session.valid_text import replace_lone_surrogates

# Called before each file is read, with its number (from 1), the number of files, and its path.
ReadProgress = Callable[[int, int, Path], None]

# How much of a file is read to find the session that a sub-agent belongs to; its first line can be a long
# prompt.
_START: Final = 64 * 1024
_AGENT_FILES: Final = "*agent-*.jsonl"


class ReplaySession(msgspec.Struct, frozen=True):
    """One recorded session. `digest` covers every byte it was read from; `path` opens it again."""

    name: str
    path: str
    format: str
    threads: tuple[Thread, ...]
    model: str
    notes: tuple[str, ...]
    digest: str
    # System prompt and tools (as JSON) if the file holds them; empty if they have to be estimated.
    system: str = ""
    tools: str = ""
    # Those of the notes that say what the file has lost.
    flaws: tuple[str, ...] = ()
    # Dollars that the agent itself recorded; None if the file has none.
    recorded_cost: Decimal | None = None
    # The context window that the agent itself recorded, in tokens; 0 if the file has none.
    window: int = 0


class Unreadable(msgspec.Struct, frozen=True):
    """A file without a readable session, and why."""

    path: str
    why: str


class Period(msgspec.Struct, frozen=True):
    """Sessions that began at or after `since` and before `until`."""

    since: datetime | None = None
    until: datetime | None = None

    def has(self, began: datetime | None) -> bool:
        """A session without times is only in a period without limits."""
        if began is None:
            return self.since is None and self.until is None
        return (self.since is None or began >= self.since) and (self.until is None or began < self.until)


def began_at(session: ReplaySession) -> datetime | None:
    """The first moment in a session; None if it has no times."""
    records = (record for thread in session.threads for record in thread.records)
    return next((at for record in records if (at := record_time(record)) is not None), None)


def read_session(path: Path) -> ReplaySession | Unreadable:
    """The session in a file, with the sub-agents that it started. `FILE#NAME` is one of several."""
    file, key = _file_and_key(path)
    found = [each for each in _sessions_in(file) if isinstance(each, Unreadable) or _has_key(each, key)]
    if len(found) == 1:
        return found[0]
    if found:
        why = f"the file holds {len(found)} sessions; name one, for example {found[0].path}"
        return Unreadable(str(path), why)
    return Unreadable(str(path), f"the file has no session {key!r}")


def read_sessions(
    paths: Iterable[Path], progress: ReadProgress | None = None
) -> Iterator[ReplaySession | Unreadable]:
    """Every session in these files and folders, in the given order; files in a folder are sorted by name."""
    files = files_below(paths)
    agents = {file for file in files if file.match(_AGENT_FILES) and _parent(file) is not None}
    taken: set[Path] = set()
    ordered = [*(file for file in files if file not in agents), *(file for file in files if file in agents)]
    for number, file in enumerate(ordered, start=1):
        if progress is not None:
            progress(number, len(ordered), file)
        if file not in taken:
            yield from _sessions_in(file, taken)


def _sessions_in(file: Path, taken: set[Path] | None = None) -> Iterator[ReplaySession | Unreadable]:
    """The sessions of one file. Files of their sub-agents are added to `taken`."""
    try:
        state = read_state_beside(file)
        source = SourceFile(read_file(file, max_bytes=MAX_SESSION_BYTES), state)
    except (OSError, ValueError) as problem:
        # ValueError: a NUL byte in the name.
        why = problem.strerror if isinstance(problem, OSError) and problem.strerror else str(problem)
        yield Unreadable(str(file), why)
        return
    if not source.data.strip():
        yield Unreadable(str(file), "the file is empty")
        return
    yield from _conversations_in(file, source, taken)


def _conversations_in(
    file: Path, source: SourceFile, taken: set[Path] | None
) -> Iterator[ReplaySession | Unreadable]:
    format, count, data = "a session", 0, source.data
    try:
        reader = next((each for each in READERS if each.recognises(source)), None)
        if reader is None:
            yield Unreadable(str(file), "unknown format")
            return
        format = reader.format
        for conversation in reader.conversations(source):
            count += 1
            agents = _agents_of(file, data, _own_name(conversation), taken) if reader is CLAUDE_CODE else ()
            yield _session(file, format, conversation, data, agents)
    except Exception as problem:
        # Files come from anywhere. An unexpected error in one must not stop the others (RP-1).
        what = f"{type(problem).__name__}: {problem}"
        yield Unreadable(str(file), f"it looks like {format}, but cannot be parsed ({what})")
        return
    if not count:
        yield Unreadable(str(file), f"it looks like {format}, but has no messages")


def _session(
    file: Path, format: str, conversation: RecordedConversation, data: bytes, agents: Iterable[Path]
) -> ReplaySession:
    digest = blake2b(data, digest_size=16)
    threads, notes = list(conversation.threads), list(conversation.notes)
    for agent in agents:
        held = read_file(agent, max_bytes=MAX_SESSION_BYTES)
        digest.update(held)
        for found in CLAUDE_CODE.conversations(SourceFile(held)):
            threads.extend(found.threads)
            notes.extend(f"{agent.name}: {note}" for note in found.notes)
    suffix = f"#{conversation.key}" if conversation.key else ""
    return ReplaySession(
        # Names are written into JSON and pages; a file's own need not be UTF-8.
        name=replace_lone_surrogates(file.name.partition(".")[0] + suffix),
        path=str(file) + suffix,
        format=format,
        threads=tuple(threads),
        model=_model(record for thread in threads for record in thread.records),
        notes=tuple(notes),
        digest=digest.hexdigest(),
        system=conversation.preamble.system,
        tools=msgspec.json.encode(conversation.preamble.tools).decode()
        if conversation.preamble.tools
        else "",
        flaws=conversation.flaws,
        window=conversation.window,
        recorded_cost=conversation.cost,
    )


def read_agent_files(file: Path) -> dict[Path, tuple[Thread, ...]]:
    """The conversations of the sub-agents that a session file has started and that have files of their own.
    What cannot be read is left out."""
    if not _agent_files_near(file):
        return {}
    found: dict[Path, tuple[Thread, ...]] = {}
    try:
        for agent in _agents_of(file, read_file(file, max_bytes=MAX_SESSION_BYTES)):
            held = SourceFile(read_file(agent, max_bytes=MAX_SESSION_BYTES))
            found[agent] = tuple(
                thread for each in CLAUDE_CODE.conversations(held) for thread in each.threads
            )
    except (OSError, ValueError):
        return found
    return found


def _own_name(conversation: RecordedConversation) -> set[str] | None:
    """One of several sessions in a file starts the sub-agents that name it. None if it is the only one."""
    if not conversation.key:
        return None
    records = (record for thread in conversation.threads for record in (*thread.records, *thread.abandoned))
    return {record.session for record in records}


def _agents_of(
    file: Path, data: bytes, named: set[str] | None = None, taken: set[Path] | None = None
) -> tuple[Path, ...]:
    """The files of sub-agents that this session started and that no other session has taken."""
    if _parent(file) is not None:
        return ()
    found: list[Path] = []
    for each in _agent_files_near(file):
        parent = _parent(each) if each != file and each not in (taken or ()) else None
        if parent is None:
            continue
        if parent.session.encode() in data if named is None else parent.session in named:
            found.append(each)
    if taken is not None:
        taken.update(found)
    return tuple(found)


def _agent_files_near(file: Path) -> list[Path]:
    beside = sorted(file.parent.glob(_AGENT_FILES))
    return [*beside, *sorted((file.parent / file.stem / "subagents").glob(_AGENT_FILES))]


def _parent(file: Path) -> Parent | None:
    try:
        with open_stream(file, max_bytes=MAX_SESSION_BYTES) as opened:
            return parent_of(opened.read(_START))
    except (OSError, ValueError):
        return None


def _model(records: Iterable[Record]) -> str:
    """The model with the most replies."""
    replies = {record.message_id or record.uuid: record.reply for record in records if record.reply}
    named = Counter(reply.model for reply in replies.values() if reply.model and not reply.is_synthetic)
    return named.most_common(1)[0][0] if named else ""


def _file_and_key(path: Path) -> tuple[Path, str]:
    if path.exists() or "#" not in path.name:
        return path, ""
    name, _, key = path.name.rpartition("#")
    return path.with_name(name), key


def _has_key(session: ReplaySession, key: str) -> bool:
    return not key or session.path.endswith(f"#{key}")
