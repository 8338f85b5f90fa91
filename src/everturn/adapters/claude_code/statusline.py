"""The status line: how full the context is, whether the cache is warm, what it costs, in one line.

What Claude Code gives on standard input is shown; what it leaves out is looked for in the end of the
transcript (`tail.py`), and what is not there either is left out. A status line must never break: whatever
comes in, one short line goes out, and the exit code is 0.
"""

import os
import sys
import time

from everturn.adapters.claude_code.quick_json import at, decode, number, text
from everturn.adapters.claude_code.tail import Reply, last_reply, seconds_of
from everturn.measure.reserves import automatic_mark

# Checkers know the name by itself; `typing` and `collections` are slow to import.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

# From which share of the automatic mark on the context is shown in yellow, and in red.
FILLING, NEARLY_FULL = 70, 90
# Below so many seconds the cache is about to go cold.
SOON_COLD = 60
# Windows that CLAUDE_CODE_AUTO_COMPACT_WINDOW may name; others are ignored, as Claude Code does.
AUTO_WINDOWS = range(100_000, 1_000_001)
# From here on a time in a payload is in milliseconds: in seconds it would be in the year 5138.
MILLISECONDS = 1e11

LONGEST_NAME = 40
# Letters from here on may be two columns wide; taken for wide, a line is at worst too short.
WIDE = "\u1100"
BETWEEN = " · "
# Which part goes first where there is little room; the context stays.
GOES_FIRST = ("miss", "model", "hit", "cost", "cache")
COLORS = {"plain": "", "dim": "2", "good": "32", "warn": "33", "bad": "31", "strong": "1"}


class Part:
    """One thing that is shown: its name, its words, and fewer words for a narrow terminal."""

    __slots__ = ("color", "name", "short", "words")

    def __init__(self, name: str, words: str, short: str = "", color: str = "plain") -> None:
        self.name = name
        self.words = words
        self.short = short or words
        self.color = color


def run() -> int:
    """Standard input to standard output. Also when nothing is right: one line, exit code 0."""
    if sys.stdin is None or sys.stdin.isatty():
        line = "everturn statusline is called by Claude Code: `everturn install claude-code` sets it up"
    else:
        try:
            line = line_of(sys.stdin.buffer.read(), os.environ, time.time())
        except Exception as problem:
            line = f"everturn: no status ({type(problem).__name__})"
    _print(line)
    return 0


def _print(line: str) -> None:
    encoding = (sys.stdout.encoding or "ascii").lower()
    if not encoding.startswith("utf"):
        line = line.replace(BETWEEN.strip(), "|")
    sys.stdout.buffer.write(line.encode(encoding, "replace") + b"\n")
    sys.stdout.flush()


def line_of(data: bytes, environment: "Mapping[str, str]", now: float) -> str:
    """The line for a payload; `now` is in seconds since 1970."""
    try:
        payload = decode(data.decode())
    except ValueError:
        return "everturn: no status, the input is no JSON"
    if not isinstance(payload, dict):
        return "everturn: no status, the input is no JSON object"
    width = _width(environment)
    drawn = _fitted(parts_of(payload, environment, now), width)
    if environment.get("NO_COLOR") or environment.get("TERM") == "dumb":
        return BETWEEN.join(words for words, _ in drawn)
    return _paint(BETWEEN, "dim").join(_paint(words, color) for words, color in drawn)


def parts_of(payload: dict[str, object], environment: "Mapping[str, str]", now: float) -> list[Part]:
    needs_tail = at(payload, "prompt_cache") is None or at(payload, "context_window") is None
    path = text(payload, "transcript_path")
    reply = last_reply(path) if needs_tail and path else None
    found = (
        _model(payload, reply),
        _context(payload, reply, environment),
        _hit(payload, reply),
        _cache(payload, reply, now),
        _cost(payload),
        _miss(payload),
    )
    return [part for part in found if part]


def _model(payload: dict[str, object], reply: Reply | None) -> Part | None:
    given = text(payload, "model", "display_name") or text(payload, "model", "id")
    name = "".join(letter for letter in given or (reply.model if reply else "") if letter.isprintable())
    return Part("model", name[:LONGEST_NAME], color="strong") if name else None


def _context(
    payload: dict[str, object], reply: Reply | None, environment: "Mapping[str, str]"
) -> Part | None:
    window = int(number(payload, "context_window", "context_window_size") or 0)
    used = _used(payload, window, reply)
    share = number(payload, "context_window", "used_percentage")
    if share is None and window > 0 and used is not None:
        share = 100 * used / window
    if share is None:
        return Part("context", f"context {_thousands(used)}", _thousands(used)) if used else None
    mark = _mark(window, environment)
    if used is None or not mark:
        return Part("context", f"context {share:.0f}%", f"{share:.0f}%", _fullness(share))
    of_mark = 100 * used / mark
    words = f"context {share:.0f}% ({of_mark:.0f}% of auto-compact)"
    return Part("context", words, f"{share:.0f}%/{of_mark:.0f}%", _fullness(of_mark))


def _used(payload: dict[str, object], window: int, reply: Reply | None) -> float | None:
    """Tokens in the context: as the last call reported them, else as the share says."""
    usage = at(payload, "context_window", "current_usage")
    kinds = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    counts = [count for kind in kinds if (count := number(usage, kind)) is not None]
    if counts:
        return sum(counts)
    share = number(payload, "context_window", "used_percentage")
    if share is not None and window > 0:
        return share * window / 100
    # Right after /compact the last reply speaks of a context that is gone: only older versions need it.
    return reply.context if reply and at(payload, "context_window") is None else None


def _mark(window: int, environment: "Mapping[str, str]") -> int:
    """Where Claude Code compacts by itself; 0 where it does not, or the window is not known."""
    is_off = any(
        environment.get(name) in ("1", "true") for name in ("DISABLE_AUTO_COMPACT", "DISABLE_COMPACT")
    )
    if is_off or window <= 0:
        return 0
    asked = _whole(environment.get("CLAUDE_CODE_AUTO_COMPACT_WINDOW"))
    if asked in AUTO_WINDOWS:
        window = min(window, asked)
    return automatic_mark(window, _whole(environment.get("CLAUDE_AUTOCOMPACT_PCT_OVERRIDE")) or None)


def _hit(payload: dict[str, object], reply: Reply | None) -> Part | None:
    """How much of the input was read from the cache: in the session where that is given, else in one call."""
    share = number(payload, "prompt_cache", "hit_ratio")
    usage = at(payload, "context_window", "current_usage")
    if share is None and isinstance(usage, dict):
        share = _share(
            number(usage, "cache_read_input_tokens"),
            number(usage, "cache_creation_input_tokens"),
            number(usage, "input_tokens"),
        )
    if share is None and reply:
        share = _share(reply.read, reply.written, reply.fresh)
    return None if share is None else Part("hit", f"cache hit {100 * share:.0f}%", f"hit {100 * share:.0f}%")


def _share(read: float | None, written: float | None, fresh: float | None) -> float | None:
    whole = (read or 0) + (written or 0) + (fresh or 0)
    return (read or 0) / whole if whole > 0 else None


def _cache(payload: dict[str, object], reply: Reply | None, now: float) -> Part | None:
    """How long the cache is still warm."""
    ends = _moment(at(payload, "prompt_cache", "expires_at"))
    if ends is None and at(payload, "prompt_cache", "warm") is False:
        return Part("cache", "cold", color="bad")
    if ends is None and reply and reply.when is not None:
        ends = reply.when + reply.lifetime
    if ends is None:
        return None
    left = int(ends - now)
    if left <= 0:
        return Part("cache", "cold", color="bad")
    clock = f"{left // 60}:{left % 60:02}"
    return Part("cache", f"warm {clock}", clock, "warn" if left < SOON_COLD else "good")


def _cost(payload: dict[str, object]) -> Part | None:
    dollars = number(payload, "cost", "total_cost_usd")
    return None if dollars is None else Part("cost", f"${dollars:,.2f}")


def _miss(payload: dict[str, object]) -> Part | None:
    """Why the cache was missed last, in the words of Claude Code."""
    causes = at(payload, "prompt_cache", "last_miss_cause", "causes")
    named = [cause for cause in causes if isinstance(cause, str)] if isinstance(causes, list) else []
    if not named:
        return None
    words = ", ".join(cause.replace("_", " ") for cause in named if cause.isprintable())[:LONGEST_NAME]
    return Part("miss", f"missed: {words}", "missed", "warn")


def _fitted(parts: list[Part], width: int) -> list[tuple[str, str]]:
    """All words; else shorter ones, else fewer parts, the least important first; at last, cut."""
    names = [name for name in GOES_FIRST if any(part.name == name for part in parts)]
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
    return sum(2 if letter >= WIDE else 1 for letter in BETWEEN.join(words.values()))


def _width(environment: "Mapping[str, str]") -> int:
    columns = _whole(environment.get("COLUMNS"))
    return columns if columns > 0 else sys.maxsize


def _whole(given: str | None) -> int:
    """A whole number of the environment; 0 where there is none."""
    return int(given) if given and given.isascii() and given.isdigit() and len(given) < 10 else 0


def _moment(given: object) -> float | None:
    if isinstance(given, str):
        return seconds_of(given)
    seconds = number(given)
    return None if seconds is None else seconds / 1_000 if seconds > MILLISECONDS else seconds


def _thousands(tokens: float | None) -> str:
    return f"{(tokens or 0) / 1_000:.0f}k"


def _fullness(share: float) -> str:
    return "bad" if share >= NEARLY_FULL else "warn" if share >= FILLING else "good"


def _paint(words: str, color: str) -> str:
    code = COLORS[color]
    return f"\x1b[{code}m{words}\x1b[0m" if code else words
