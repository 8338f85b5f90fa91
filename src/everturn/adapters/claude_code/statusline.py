"""The status line for Claude Code: context usage, cache state and cost in one line.

Shows what Claude Code sends on standard input; missing values are read from the end of the transcript
(`transcript_tail.py`) or left out. A status line must never fail: for any input it prints one short line and
exits with code 0.
"""

import os
import sys
import time

from everturn.adapters.claude_code.quick_json import (
    decode,
    get_number,
    get_path,
    get_text,
    is_list,
    is_object,
)
from everturn.adapters.claude_code.transcript_tail import LastReply, parse_timestamp, read_last_reply
from everturn.measure.reserves import auto_compact_threshold

# Type checkers know this name; `typing` and `collections` are slow to import.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

# Percent of the auto-compact threshold from which the context is yellow, and red.
WARN_PERCENT, ERROR_PERCENT = 70, 90
# The cache is about to expire.
CACHE_WARN_SECONDS = 60
# Valid values of CLAUDE_CODE_AUTO_COMPACT_WINDOW; others are ignored, as in Claude Code.
AUTO_WINDOWS = range(100_000, 1_000_001)
# A larger time is in milliseconds: in seconds it would be after the year 5138.
MILLISECONDS = 1e11

MAX_NAME_CHARACTERS = 40
# Characters from here on may be two columns wide; counting them as wide at worst makes a line too short.
WIDE = "\u1100"
SEPARATOR = " · "
# The order in which segments are dropped on a narrow terminal; the context is never dropped.
DROP_ORDER = ("miss", "model", "hit", "cost", "cache")
COLORS = {"plain": "", "dim": "2", "good": "32", "warn": "33", "bad": "31", "strong": "1"}


class StatusSegment:
    """One part of the line: its name, its text, and a shorter text for a narrow terminal."""

    __slots__ = ("color", "name", "short", "words")

    def __init__(self, name: str, words: str, short: str = "", color: str = "plain") -> None:
        self.name = name
        self.words = words
        self.short = short or words
        self.color = color


def run() -> int:
    """Standard input to standard output: always one line and exit code 0."""
    if sys.stdin is None or sys.stdin.isatty():
        line = "everturn statusline is called by Claude Code; set it up with `everturn install claude-code`"
    else:
        try:
            line = format_line(sys.stdin.buffer.read(), os.environ, time.time())
        except Exception as problem:
            line = f"everturn: no status ({type(problem).__name__})"
    _print(line)
    return 0


def _print(line: str) -> None:
    encoding = (sys.stdout.encoding or "ascii").lower()
    if not encoding.startswith("utf"):
        line = line.replace(SEPARATOR.strip(), "|")
    sys.stdout.buffer.write(line.encode(encoding, "replace") + b"\n")
    sys.stdout.flush()


def format_line(data: bytes, environment: "Mapping[str, str]", now: float) -> str:
    """The line for a payload; `now` is a Unix time."""
    try:
        payload = decode(data.decode())
    except ValueError:
        return "everturn: no status, the input is not valid JSON"
    if not is_object(payload):
        return "everturn: no status, the input is not a JSON object"
    width = _width(environment)
    drawn = _fitted(build_segments(payload, environment, now), width)
    if environment.get("NO_COLOR") or environment.get("TERM") == "dumb":
        return SEPARATOR.join(words for words, _ in drawn)
    return _paint(SEPARATOR, "dim").join(_paint(words, color) for words, color in drawn)


def build_segments(
    payload: dict[str, object], environment: "Mapping[str, str]", now: float
) -> list[StatusSegment]:
    needs_tail = get_path(payload, "prompt_cache") is None or get_path(payload, "context_window") is None
    path = get_text(payload, "transcript_path")
    reply = read_last_reply(path) if needs_tail and path else None
    found = (
        _model(payload, reply),
        _context(payload, reply, environment),
        _hit(payload, reply),
        _cache(payload, reply, now),
        _cost(payload),
        _miss(payload),
    )
    return [part for part in found if part]


def _model(payload: dict[str, object], reply: LastReply | None) -> StatusSegment | None:
    given = get_text(payload, "model", "display_name") or get_text(payload, "model", "id")
    name = "".join(letter for letter in given or (reply.model if reply else "") if letter.isprintable())
    return StatusSegment("model", name[:MAX_NAME_CHARACTERS], color="strong") if name else None


def _context(
    payload: dict[str, object], reply: LastReply | None, environment: "Mapping[str, str]"
) -> StatusSegment | None:
    window = int(get_number(payload, "context_window", "context_window_size") or 0)
    used = _used(payload, window, reply)
    share = get_number(payload, "context_window", "used_percentage")
    if share is None and window > 0 and used is not None:
        share = 100 * used / window
    if share is None:
        return StatusSegment("context", f"context {_thousands(used)}", _thousands(used)) if used else None
    mark = _auto_compact_threshold(window, environment)
    if used is None or not mark:
        return StatusSegment("context", f"context {share:.0f}%", f"{share:.0f}%", _fullness(share))
    of_mark = 100 * used / mark
    words = f"context {share:.0f}% ({of_mark:.0f}% of auto-compact)"
    return StatusSegment("context", words, f"{share:.0f}%/{of_mark:.0f}%", _fullness(of_mark))


def _used(payload: dict[str, object], window: int, reply: LastReply | None) -> float | None:
    """Tokens in the context: reported by the last call, or calculated from the percentage."""
    usage = get_path(payload, "context_window", "current_usage")
    kinds = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    counts = [count for kind in kinds if (count := get_number(usage, kind)) is not None]
    if counts:
        return sum(counts)
    share = get_number(payload, "context_window", "used_percentage")
    if share is not None and window > 0:
        return share * window / 100
    # Right after /compact the last reply describes the old context, so only older versions use it.
    return reply.context if reply and get_path(payload, "context_window") is None else None


def _auto_compact_threshold(window: int, environment: "Mapping[str, str]") -> int:
    """Claude Code's auto-compact threshold in tokens; 0 if it is off or the window is unknown."""
    is_off = any(
        environment.get(name) in ("1", "true") for name in ("DISABLE_AUTO_COMPACT", "DISABLE_COMPACT")
    )
    if is_off or window <= 0:
        return 0
    asked = _whole(environment.get("CLAUDE_CODE_AUTO_COMPACT_WINDOW"))
    if asked in AUTO_WINDOWS:
        window = min(window, asked)
    return auto_compact_threshold(window, _whole(environment.get("CLAUDE_AUTOCOMPACT_PCT_OVERRIDE")) or None)


def _hit(payload: dict[str, object], reply: LastReply | None) -> StatusSegment | None:
    """The share of the input read from the cache: of the session if known, else of the last call."""
    share = get_number(payload, "prompt_cache", "hit_ratio")
    usage = get_path(payload, "context_window", "current_usage")
    if share is None and is_object(usage):
        share = _share(
            get_number(usage, "cache_read_input_tokens"),
            get_number(usage, "cache_creation_input_tokens"),
            get_number(usage, "input_tokens"),
        )
    if share is None and reply:
        share = _share(reply.read, reply.written, reply.fresh)
    return (
        None
        if share is None
        else StatusSegment("hit", f"cache hit {100 * share:.0f}%", f"hit {100 * share:.0f}%")
    )


def _share(read: float | None, written: float | None, fresh: float | None) -> float | None:
    whole = (read or 0) + (written or 0) + (fresh or 0)
    return (read or 0) / whole if whole > 0 else None


def _cache(payload: dict[str, object], reply: LastReply | None, now: float) -> StatusSegment | None:
    """How long until the cache expires."""
    ends = _moment(get_path(payload, "prompt_cache", "expires_at"))
    if ends is None and get_path(payload, "prompt_cache", "warm") is False:
        return StatusSegment("cache", "cold", color="bad")
    if ends is None and reply and reply.when is not None:
        ends = reply.when + reply.lifetime
    if ends is None:
        return None
    left = int(ends - now)
    if left <= 0:
        return StatusSegment("cache", "cold", color="bad")
    clock = f"{left // 60}:{left % 60:02}"
    return StatusSegment("cache", f"warm {clock}", clock, "warn" if left < CACHE_WARN_SECONDS else "good")


def _cost(payload: dict[str, object]) -> StatusSegment | None:
    dollars = get_number(payload, "cost", "total_cost_usd")
    return None if dollars is None else StatusSegment("cost", f"${dollars:,.2f}")


def _miss(payload: dict[str, object]) -> StatusSegment | None:
    """The cause of the last cache miss, in Claude Code's words."""
    causes = get_path(payload, "prompt_cache", "last_miss_cause", "causes")
    named = [cause for cause in causes if isinstance(cause, str)] if is_list(causes) else []
    if not named:
        return None
    words = ", ".join(cause.replace("_", " ") for cause in named if cause.isprintable())[:MAX_NAME_CHARACTERS]
    return StatusSegment("miss", f"missed: {words}", "missed", "warn")


def _fitted(parts: list[StatusSegment], width: int) -> list[tuple[str, str]]:
    """Fit the width: full texts, then shorter ones, then fewer segments, then cut."""
    names = [name for name in DROP_ORDER if any(part.name == name for part in parts)]
    steps = [*(("short", name) for name in (*names, "context")), *(("gone", name) for name in names)]
    words = {part.name: part.words for part in parts}
    for step, name in steps:
        if _columns(words) <= width or len(words) == 1:
            break
        if step == "gone":
            del words[name]
        else:
            words.update((part.name, part.short) for part in parts if part.name == name)
    most = width if _columns(words) > width else None
    return [(words[part.name][:most], part.color) for part in parts if part.name in words]


def _columns(words: dict[str, str]) -> int:
    return sum(2 if letter >= WIDE else 1 for letter in SEPARATOR.join(words.values()))


def _width(environment: "Mapping[str, str]") -> int:
    columns = _whole(environment.get("COLUMNS"))
    return columns if columns > 0 else sys.maxsize


def _whole(given: str | None) -> int:
    """An integer from the environment; 0 if there is none."""
    return int(given) if given and given.isascii() and given.isdigit() and len(given) < 10 else 0


def _moment(given: object) -> float | None:
    if isinstance(given, str):
        return parse_timestamp(given)
    seconds = get_number(given)
    return None if seconds is None else seconds / 1_000 if seconds > MILLISECONDS else seconds


def _thousands(tokens: float | None) -> str:
    return f"{(tokens or 0) / 1_000:.0f}k"


def _fullness(share: float) -> str:
    return "bad" if share >= ERROR_PERCENT else "warn" if share >= WARN_PERCENT else "good"


def _paint(words: str, color: str) -> str:
    code = COLORS[color]
    return f"\x1b[{code}m{words}\x1b[0m" if code else words
