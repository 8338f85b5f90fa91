"""Open session files. All code that reads session files from disk calls this module.

A damaged session can be opened; the transcript lists its flaws (`wire/line_repair.py`). An empty file is an
empty session. A file that is not a session is refused with a message that says what it looks like.
"""

import os
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import BinaryIO, Final

from everturn.errors import InputError, NotASession
from everturn.history.records import Record
from everturn.safe_files import MAX_SESSION_BYTES, open_stream, read_file
from everturn.wire.claude_code_reader import Transcript, looks_like_a_session, parse_session_file
from everturn.wire.line_sums import check_end, check_sums
from everturn.wire.queued_messages import QUEUE_OPERATION, QueuedMessage, find_unrecorded

STDIN: Final = "-"
SUFFIX: Final = ".jsonl"
STATE_SUFFIX: Final = ".state.json"
MAX_SUGGESTIONS: Final = 3

# Called after every chunk with the bytes read so far and the total (0 if unknown).
Progress = Callable[[int, int], None]
_CHUNK: Final = 4 * 1024 * 1024
# zlib's window bits for data with a gzip header.
_GZIP: Final = 31

# First bytes of file types that are often given by mistake.
_SIGNATURES: Final[tuple[tuple[bytes, str], ...]] = (
    (b"\x89PNG\r\n\x1a\n", "a PNG picture"),
    (b"\xff\xd8\xff", "a JPEG picture"),
    (b"GIF8", "a GIF picture"),
    (b"%PDF-", "a PDF document"),
    (b"PK\x03\x04", "a zip archive"),
    (b"\x1f\x8b", "gzip-compressed data"),
    (b"\x28\xb5\x2f\xfd", "zstandard-compressed data"),
    (b"BZh", "bzip2-compressed data"),
    (b"\xfd7zXZ\x00", "xz-compressed data"),
    (b"SQLite format 3\x00", "an SQLite database"),
    (b"\x7fELF", "a program"),
    (b"\xff\xfe", "UTF-16 text"),
    (b"\xfe\xff", "UTF-16 text"),
)


def open_transcript(path: str | os.PathLike[str], progress: Progress | None = None) -> Transcript:
    """Read the session in a file, or on standard input for "-"."""
    if os.fspath(path) == STDIN:
        return parse_transcript(_standard_input(), "standard input")
    state = read_state_beside(path)
    return parse_transcript(_content(Path(path), progress), os.fspath(path), state)


def open_own_transcript(path: str) -> Transcript:
    """Read the file of an open session. It is one even if all it holds is a line that was cut off."""
    state = read_state_beside(path)
    return parse_whole_file(_content(Path(path), None), state)


def parse_transcript(data: bytes, name: str, state: bytes = b"") -> Transcript:
    """Parse a session from bytes; error messages call it `name`. `state` is what its state file held before
    the bytes were read."""
    transcript = parse_whole_file(data, state)
    if data.strip() and not looks_like_a_session(transcript.lines):
        raise NotASession(
            f"{name} is not a session file: it looks like {_looks_like(data)}. "
            "Give a Claude Code session, a .jsonl file with one JSON object per line."
        )
    return transcript


def parse_whole_file(data: bytes, state: bytes = b"") -> Transcript:
    """Parse a session from its first byte to its last, which is what its checksums speak of."""
    transcript = parse_session_file(data)
    sums = check_sums(data)
    found = (*transcript.flaws, *sums.problems, *check_end(state, data, sums.state))
    return Transcript(transcript.lines, tuple(sorted(found, key=lambda flaw: flaw.line)), sums.state)


def read_state_beside(path: str | os.PathLike[str]) -> bytes:
    """What the state file of a transcript holds; nothing if there is none.

    Whoever compares it with the transcript reads it first. A writer only appends, and writes the state after
    the lines, so an older state still fits; a newer one would say that the lines written since are missing.
    """
    try:
        return read_file(os.path.realpath(path) + STATE_SUFFIX)
    except (OSError, ValueError):
        return b""


def read_queued_messages(path: str, records: Sequence[Record]) -> tuple[QueuedMessage, ...]:
    """What the user typed into another program while its model worked, and no record of the file has."""
    try:
        data = read_file(path, max_bytes=MAX_SESSION_BYTES)
    except (OSError, ValueError):
        return ()
    if QUEUE_OPERATION.encode() not in data:
        return ()
    lines = b"\n".join(line for line in data.split(b"\n") if QUEUE_OPERATION.encode() in line)
    return find_unrecorded(parse_session_file(lines).lines, records)


def _standard_input() -> bytes:
    if sys.stdin is None or sys.stdin.closed:
        raise InputError("Standard input is closed; give a file instead of '-'.")
    return sys.stdin.buffer.read()


def _content(path: Path, progress: Progress | None) -> bytes:
    try:
        if path.is_dir():
            raise InputError(_directory(path))
        with open_stream(path, max_bytes=MAX_SESSION_BYTES) as file:
            return b"".join(_chunks(file, os.fstat(file.fileno()).st_size, progress))
    except FileNotFoundError:
        raise InputError(_missing(path)) from None
    except (OSError, ValueError) as problem:
        # ValueError: a NUL byte in the name.
        why = problem.strerror if isinstance(problem, OSError) and problem.strerror else str(problem)
        raise InputError(f"{path} cannot be read: {why}. Check the name and its permissions.") from None


def _chunks(file: BinaryIO, size: int, progress: Progress | None) -> Iterator[bytes]:
    done = 0
    while chunk := file.read(_CHUNK):
        done += len(chunk)
        if progress is not None:
            progress(done, size)
        yield chunk


def _missing(path: Path) -> str:
    if path.is_symlink():
        return (
            f"{path} is a symbolic link to {os.readlink(path)}, which does not exist; correct or remove it."
        )
    message = f"No file {path} found."
    folder = path.parent
    if not folder.is_dir():
        return f"{message} The folder {folder} does not exist either."
    near = get_close_matches(path.name, _session_names(folder), n=MAX_SUGGESTIONS, cutoff=0.4)
    return f"{message} Did you mean {_listed([str(folder / name) for name in near])}?" if near else message


def _directory(path: Path) -> str:
    message = f"{path} is a directory; name one session file in it"
    names = _session_names(path)
    if not names:
        return f"{message} (it holds no .jsonl file)."
    newest = sorted(names, key=lambda name: (-_changed(path / name), name))[:MAX_SUGGESTIONS]
    return f"{message}, for example the newest: {_listed([str(path / name) for name in newest])}."


def _session_names(folder: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in folder.iterdir() if entry.suffix == SUFFIX)
    except OSError:
        return []


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def _looks_like(data: bytes) -> str:
    for signature, what in _SIGNATURES:
        if data.startswith(signature):
            return what + _if_packed(data)
    if b"\x00" in data[:_CHUNK]:
        return "binary data"
    try:
        text = data[:_CHUNK].decode()
    except UnicodeDecodeError as problem:
        # A chunk may end within a character; an error before that means that it is not UTF-8.
        if problem.start < min(len(data), _CHUNK) - 4:
            return "text that is not UTF-8, or binary data"
        text = data[: problem.start].decode()
    return _kind_of_text(text)


def _if_packed(data: bytes) -> str:
    """A hint if the data is a compressed session. Decompresses one chunk only: it may be a zip bomb."""
    try:
        inside = zlib.decompressobj(_GZIP).decompress(data, _CHUNK)
    except zlib.error:
        return ""
    is_session = looks_like_a_session(parse_session_file(inside).lines)
    return " of a session (decompress it first: gzip -dc FILE | everturn context -)" if is_session else ""


def _kind_of_text(text: str) -> str:
    start = text.lstrip("\ufeff \t\r\n")
    if start.lower().startswith(("<!doctype html", "<html")):
        return "an HTML page"
    if start.startswith("<"):
        return "XML"
    if start.startswith(("{", "[")):
        first = start.splitlines()[0].strip()
        is_line = first.startswith("{") and first.endswith("}") and len(start.splitlines()) > 1
        return "JSON lines that are not session records" if is_line else "a JSON document"
    return "plain text"
