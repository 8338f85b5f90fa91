"""The pin file: texts that an agent pinned through another process, in a file beside the transcript.

A transcript has one writer. Other processes append pins to this file, one JSON string per line. The writer
reads them before its next compaction. `everturn hook` returns them after a compaction by Claude Code.
Whoever can write the file can write pins: each is carried with a label that it is not the user's.
"""

import os
import re
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from everturn.errors import InputError, UsageError
from everturn.safe_files import append_line, read_file
from everturn.session.valid_text import replace_lone_surrogates

SUFFIX: Final = ".pins"
# A longer text belongs in a file, which the model can read again. Our choice.
MAX_CHARACTERS: Final = 2_000
_TEXT = msgspec.json.Decoder(str)
# The beginning of a line that was not written to its end: a text that is not closed.
_OPEN_TEXT: Final = re.compile(rb'"(?:[^"\\]|\\.)*\\?', re.DOTALL)


class PinFile(NamedTuple):
    """The pins in order, each once, and a remark about lines that cannot be read; "" if there are none."""

    pins: tuple[str, ...] = ()
    damage: str = ""


def pin_file_path(transcript: str | os.PathLike[str]) -> Path:
    return Path(f"{os.fspath(transcript)}{SUFFIX}")


def read_pins(transcript: str | os.PathLike[str]) -> tuple[str, ...]:
    return read_pin_file(transcript).pins


def read_pin_file(transcript: str | os.PathLike[str]) -> PinFile:
    """An incomplete line is skipped: its writer crashed before `append_pin` returned."""
    path = pin_file_path(transcript)
    try:
        lines = read_file(path, follow=False).split(b"\n")
    except FileNotFoundError:
        return PinFile()
    except OSError as problem:
        raise InputError(f"The pins in {path} cannot be read: {problem.strerror}.") from problem
    texts, damaged = list[str](), list[int]()
    # A complete line is followed by an empty one: its own line break comes before that of the next append.
    for number, (line, following) in enumerate(pairwise((*lines, b"more")), start=1):
        text = _read(line)
        if text is not None:
            texts.append(text)
        elif not (following and _OPEN_TEXT.fullmatch(line)):
            damaged.append(number)
    return PinFile(tuple(dict.fromkeys(filter(None, texts))), _describe_damage(path, damaged))


def _read(line: bytes) -> str | None:
    """The text of a line, "" of an empty one; None if it cannot be read."""
    try:
        return _TEXT.decode(line) if line else ""
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _describe_damage(path: Path, lines: list[int]) -> str:
    if not lines:
        return ""
    which = f"line {lines[0]}" if len(lines) == 1 else f"lines {', '.join(map(str, lines))}"
    return f"a pin is lost: {which} of {path} cannot be read; pin the text again and remove what is damaged"


def append_pin(transcript: str | os.PathLike[str], text: str) -> tuple[str, ...]:
    """Pin this text durably; returns all pins."""
    text = replace_lone_surrogates(text.strip())
    if not text:
        raise UsageError("No text to pin; give the text that must be kept.")
    if len(text) > MAX_CHARACTERS:
        raise UsageError(
            f"The text has {len(text):,} characters; a pin may have at most {MAX_CHARACTERS:,}, because "
            "every compaction repeats it. Put the text in a file and pin a sentence that names the file."
        )
    known = read_pins(transcript)
    if text in known:
        return known
    _append(pin_file_path(transcript), msgspec.json.encode(text))
    return (*known, text)


def _append(path: Path, line: bytes) -> None:
    try:
        # The leading line break ends a line that a crash left incomplete; empty lines are skipped.
        append_line(path, b"\n" + line + b"\n")
    except OSError as problem:
        raise InputError(f"Nothing was pinned: {path} cannot be written: {problem.strerror}.") from problem
