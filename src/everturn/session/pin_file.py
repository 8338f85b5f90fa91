"""Words pinned from outside: a file beside a transcript that somebody else is writing.

A transcript has one writer. Whoever else wants words to be kept appends them here, one JSON text per line;
the writer takes them in before its next compaction, and `everturn hook` gives them back after one of Claude
Code's.
"""

import os
from pathlib import Path
from typing import Final

import msgspec

from everturn.errors import InputError, UsageError

SUFFIX: Final = ".pins"
# A rule that is longer is a document; documents are files that can be read again. Our choice.
MAX_CHARACTERS: Final = 2_000
_TEXT = msgspec.json.Decoder(str)


def pin_file_path(transcript: str | os.PathLike[str]) -> Path:
    return Path(f"{os.fspath(transcript)}{SUFFIX}")


def read_pins(transcript: str | os.PathLike[str]) -> tuple[str, ...]:
    """In the order in which they were pinned, each once. A torn line is passed over: whoever wrote it was
    told of no success."""
    path = pin_file_path(transcript)
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return ()
    except OSError as problem:
        raise InputError(f"The pins in {path} cannot be read: {problem.strerror}.") from problem
    return tuple(dict.fromkeys(text for line in lines if (text := _read(line))))


def _read(line: bytes) -> str:
    try:
        return _TEXT.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""


def append_pin(transcript: str | os.PathLike[str], words: str) -> tuple[str, ...]:
    """Pin these words, durably; gives all that are pinned now."""
    text = words.strip()
    if not text:
        raise UsageError("There is nothing to pin; give the words that must be kept.")
    if len(text) > MAX_CHARACTERS:
        raise UsageError(
            f"These are {len(text):,} characters, and a pin has at most {MAX_CHARACTERS:,}: it is carried "
            "through every compaction. Put them in a file and pin a sentence that names it."
        )
    known = read_pins(transcript)
    if text in known:
        return known
    _append(pin_file_path(transcript), msgspec.json.encode(text))
    return (*known, text)


def _append(path: Path, line: bytes) -> None:
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            # The line break in front ends whatever line a crash left open; empty lines mean nothing.
            os.write(handle, b"\n" + line + b"\n")
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as problem:
        raise InputError(f"Nothing was pinned: {path} cannot be written: {problem.strerror}.") from problem
