"""Reads the last reply from the end of a transcript: its usage, time and cache lifetime.

Reads at most `MAX_TAIL_BYTES`, because the status line is drawn often. `everturn audit` reports the cost of a
whole session.
"""

import os

from everturn.adapters.claude_code.quick_json import decode, get_number, get_path, get_text
from everturn.safe_files import MAX_SESSION_BYTES, open_stream

# Type checkers know this name; `typing` and `collections` are slow to import.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_TAIL_BYTES = 256 * 1024
# Cache lifetimes in seconds, by the usage field that counts the tokens written with them
# (api-facts 1.1 and 1.8).
LIFETIME_SECONDS = {"ephemeral_5m_input_tokens": 300, "ephemeral_1h_input_tokens": 3_600}
MIN_LIFETIME_SECONDS = min(LIFETIME_SECONDS.values())


class LastReply:
    """Data of the last reply of the main conversation. `lifetime` is in seconds."""

    __slots__ = ("fresh", "lifetime", "model", "read", "when", "written")

    def __init__(self, line: object, lifetime: int) -> None:
        used = get_path(line, "message", "usage")
        self.fresh = int(get_number(used, "input_tokens") or 0)
        self.read = int(get_number(used, "cache_read_input_tokens") or 0)
        self.written = int(get_number(used, "cache_creation_input_tokens") or 0)
        self.model = get_text(line, "message", "model")
        self.when = parse_timestamp(get_text(line, "timestamp"))
        self.lifetime = lifetime

    @property
    def context(self) -> int:
        return self.fresh + self.read + self.written


def read_last_reply(path: str) -> LastReply | None:
    """The last reply; None if the file cannot be read or its end has no reply."""
    newest: object = None
    for line in _replies(_end_of(path)):
        newest = newest or line
        # A reply that wrote nothing to the cache does not tell its lifetime; use an earlier one.
        if lifetime := _lifetime(line):
            return LastReply(newest, lifetime)
    return LastReply(newest, MIN_LIFETIME_SECONDS) if newest else None


def read_last_uuid(path: str) -> str:
    """The last uuid in the transcript; "" if there is none."""
    for line in _lines(_end_of(path), b'"uuid"'):
        if name := get_text(line, "uuid"):
            return name
    return ""


def _end_of(path: str) -> bytes:
    try:
        with open_stream(path, max_bytes=MAX_SESSION_BYTES) as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - MAX_TAIL_BYTES))
            return file.read(MAX_TAIL_BYTES)
    except (OSError, ValueError):
        # ValueError: a NUL byte in the path.
        return b""


def _replies(end: bytes) -> "Iterator[object]":
    """Replies of the API in the main conversation, newest first; no replies of sub-agents."""
    for line in _lines(end, b'"usage"'):
        is_reply = get_path(line, "type") == "assistant" and isinstance(
            get_path(line, "message", "usage"), dict
        )
        is_aside = get_path(line, "isSidechain") is True or get_path(line, "isApiErrorMessage") is True
        if is_reply and not is_aside and get_text(line, "message", "model") != "<synthetic>":
            yield line


def _lines(end: bytes, holding: bytes) -> "Iterator[object]":
    """Valid lines, newest first. The first line may be cut, the last one may be incomplete."""
    for raw in reversed(end.split(b"\n")):
        if holding in raw:
            try:
                yield decode(raw.decode())
            except ValueError:
                continue


def _lifetime(line: object) -> int:
    split = get_path(line, "message", "usage", "cache_creation")
    lives = [seconds for name, seconds in LIFETIME_SECONDS.items() if (get_number(split, name) or 0) > 0]
    # With both in one request, the shorter one is at the end of the prompt and expires first.
    return min(lives, default=0)


def parse_timestamp(stamp: str) -> float | None:
    """Parse a time such as 2026-02-06T09:59:05.003Z to Unix seconds; None if it is invalid."""
    try:
        if not stamp.endswith("Z"):
            return _of_any_zone(stamp)
        day, _, clock = stamp[:-1].partition("T")
        year, month, date = (int(part) for part in day.split("-"))
        hour, minute, second = clock.split(":")
        return _days(year, month, date) * 86_400 + int(hour) * 3_600 + int(minute) * 60 + float(second)
    except ValueError:
        return None


def _of_any_zone(stamp: str) -> float:
    from datetime import datetime

    return datetime.fromisoformat(stamp).timestamp()


def _days(year: int, month: int, date: int) -> int:
    """Days since 1970-01-01. Years are counted from March, so a leap day is the last day of its year."""
    if not (1 <= month <= 12 and 1 <= date <= 31):
        raise ValueError(f"invalid date: {year}-{month}-{date}")
    march_year, march_month = (year, month - 3) if month > 2 else (year - 1, month + 9)
    before = march_year * 365 + march_year // 4 - march_year // 100 + march_year // 400
    return before + (153 * march_month + 2) // 5 + date - 1 - 719_468
