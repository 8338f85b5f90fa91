"""A cache break on disk: what two prompts differ in, for whoever wants to know why (CB-4).

Prompts hold what people wrote, so the file is for its owner alone. It is a help for debugging: where it
cannot be written, that is an answer too, and the turn goes on.
"""

import re
from datetime import UTC, datetime
from difflib import unified_diff
from pathlib import Path

import msgspec

from everturn.decide.cache_breaks import DetectedBreak
from everturn.decide.cache_key_snapshot import prompt_text
from everturn.measure.outline import Preamble
from everturn.session.private_files import write_private_file

# What every file system takes in a name; a source can be any text.
_UNFIT = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_SOURCE = 80


class ReportNotWritten(msgspec.Struct, frozen=True):
    """The disk did not take it."""

    path: Path
    why: str


def write_cache_break_report(
    found: DetectedBreak, heads: tuple[Preamble | None, Preamble], folder: Path, *, at: datetime
) -> Path | ReportNotWritten:
    """The difference of the two prompts, under the explanation. `heads` is what `Detector.heads` answers."""
    path = folder / _name(found.source, at)
    try:
        write_private_file(
            folder, path.name, format_cache_break_report(found, heads).encode("utf-8", "surrogatepass")
        )
    except OSError as problem:
        return ReportNotWritten(path, f"{path} could not be written: {problem.strerror or problem}")
    return path


def format_cache_break_report(found: DetectedBreak, heads: tuple[Preamble | None, Preamble]) -> str:
    lines = [
        f"cache break: {found.why}",
        f"source {found.source}, {found.tokens_lost:,} tokens lost, {found.idle:.0f} s after the call before",
    ]
    if found.diagnosis is not None:
        lines.append(f"the provider: {found.diagnosis.reason}, {found.diagnosis.missed:,} tokens missed")
    if found.disagreement:
        lines.append(found.disagreement)
    return "\n".join([*lines, "", *_difference(*heads), ""])


def _difference(before: Preamble | None, after: Preamble) -> list[str]:
    if before is None:
        return ["The prompt before this one is not known any more: the session was restarted in between."]
    old, new = prompt_text(before).splitlines(), prompt_text(after).splitlines()
    lines = list(unified_diff(old, new, "before", "after", lineterm=""))
    return lines or ["System prompt and tools are the same."]


def _name(source: str, at: datetime) -> str:
    safe = _UNFIT.sub("-", source).strip("-.")[:_LONGEST_SOURCE] or "source"
    return f"cache-break-{safe}-{at.astimezone(UTC):%Y%m%dT%H%M%S%f}.diff"
