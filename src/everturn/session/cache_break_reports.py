"""Cache break reports: a file with the difference between two prompts (CB-4).

Prompts hold what people wrote, so only the owner can read the file. Reports are a debugging aid: if one
cannot be written, the caller gets the reason and the turn continues.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from difflib import unified_diff
from pathlib import Path

import msgspec

from everturn.decide.cache_breaks import DetectedBreak
from everturn.decide.cache_key_snapshot import prompt_text
from everturn.measure.outline import Preamble
from everturn.session.private_files import write_private_file

# Everything but the characters that all file systems allow in a name; a source can be any text.
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_MAX_SOURCE_CHARACTERS = 80


class ReportNotWritten(msgspec.Struct, frozen=True):
    """The report could not be written."""

    path: Path
    why: str


def write_cache_break_report(
    found: DetectedBreak,
    preambles: tuple[Preamble | None, Preamble],
    folder: Path,
    *,
    at: datetime,
    dangers: Mapping[str, str] | None = None,
) -> Path | ReportNotWritten:
    """Write the explanation and the difference of the two prompts. `preambles` are those before and after, as
    `CacheBreakDetector.preambles` returns them; `dangers` are sections of the system prompt that may break
    the cache, with their registered reasons."""
    path = folder / _name(found.source, at)
    try:
        text = format_cache_break_report(found, preambles, dangers or {})
        write_private_file(folder, path.name, text.encode("utf-8", "surrogatepass"))
    except OSError as problem:
        return ReportNotWritten(path, f"{path} could not be written: {problem.strerror or problem}")
    return path


def format_cache_break_report(
    found: DetectedBreak, preambles: tuple[Preamble | None, Preamble], dangers: Mapping[str, str]
) -> str:
    lines = [
        f"cache break: {found.why}",
        f"source {found.source}, {found.tokens_lost:,} tokens lost, "
        f"{found.idle:.0f} s after the previous call",
    ]
    if found.diagnosis is not None:
        lines.append(f"the provider: {found.diagnosis.reason}, {found.diagnosis.missed:,} tokens missed")
    if found.disagreement:
        lines.append(found.disagreement)
    lines += [f"section {name!r} is computed for every request: {why}" for name, why in dangers.items()]
    return "\n".join([*lines, "", *_difference(*preambles), ""])


def _difference(before: Preamble | None, after: Preamble) -> list[str]:
    if before is None:
        return ["The previous prompt is not known: the session was restarted in between."]
    old, new = prompt_text(before).splitlines(), prompt_text(after).splitlines()
    lines = list(unified_diff(old, new, "before", "after", lineterm=""))
    return lines or ["System prompt and tools are the same."]


def _name(source: str, at: datetime) -> str:
    safe = _UNSAFE.sub("-", source).strip("-.")[:_MAX_SOURCE_CHARACTERS] or "source"
    return f"cache-break-{safe}-{at.astimezone(UTC):%Y%m%dT%H%M%S%f}.diff"
