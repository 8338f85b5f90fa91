"""What recorded compactions kept, compared with the summary that needs no model (BY-5, BY-6).

    python -m everturn.replay.retention_table [FOLDER] [--into PAGE]

For every compaction in the sessions below FOLDER: the records that it replaced, the summary that a model
wrote then, our summary of the same records, once with its own budget and once with no more tokens than the
model's, and the end of the conversation in as many tokens. `--into` writes the table between the markers of a
page.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec

from everturn.decide.extractive import summarize
from everturn.decide.retention import Retention, measure_retention
from everturn.errors import EverturnError
from everturn.history.blocks import text_of
from everturn.history.log import Log
from everturn.history.records import Record, is_sent
from everturn.history.threads import split_threads
from everturn.replay.marked_page import insert_between
from everturn.safe_files import MAX_SESSION_BYTES, edit_text, read_file
from everturn.wire.claude_code_reader import parse_session_file
from everturn.wire.queued_messages import QueuedMessage, find_unrecorded

FOLDER: Final = Path("../shared/data/claude-code")
START, END = "<!-- retention table -->", "<!-- end of the retention table -->"

SummaryAuthor = Literal["model", "ours", "ours, same size", "window"]
SUMMARY_AUTHORS: Final[tuple[SummaryAuthor, ...]] = ("model", "ours", "ours, same size", "window")
_COLUMNS: Final[Mapping[str, str]] = {
    "user_instructions": "user",
    "corrections": "corrections",
    "decisions": "decisions",
    "outcomes": "outcomes",
    "pending": "open",
    "last_words": "last words",
    "paths": "paths",
    "identifiers": "names",
    "errors": "errors",
}
_CHARACTERS: Final = 4


class RetentionRow(msgspec.Struct, frozen=True):
    """One compaction: its session, its number in the session, and what each summary kept."""

    session: str
    number: int
    kept: dict[SummaryAuthor, Retention]


def iter_compactions(records: Iterable[Record]) -> Iterator[tuple[Sequence[Record], str]]:
    """What each compaction replaced, and its summary."""
    log = Log()
    for record in records:
        before = log.view.records
        if log.append(record) == "replaced" and record.compact_summary:
            yield before, "\n".join(text_of(block) for block in record.blocks)


def compare_summaries(
    before: Sequence[Record], summary: str, queued: Iterable[QueuedMessage] = ()
) -> dict[SummaryAuthor, Retention]:
    """`queued` is what the user typed while the model worked, and no record has."""
    known = [each for each in queued if each.timestamp <= before[-1].timestamp]
    by_model = measure_retention(before, summary)
    same_size = summarize(before, budget=by_model.tokens, queued=known)
    return {
        "model": by_model,
        "ours": measure_retention(before, summarize(before, queued=known).text),
        "ours, same size": measure_retention(before, same_size.text),
        "window": measure_retention(before, end_of_conversation(before, by_model.tokens)),
    }


def end_of_conversation(records: Sequence[Record], tokens: int) -> str:
    """What a sliding window of this size would leave: the last words, calls and results as they were."""
    blocks = (block for record in records if is_sent(record) for block in record.blocks)
    words = (
        text_of(block) or (block.raw.decode(errors="replace") if block.is_call else "")
        for block in blocks
        if not block.is_thinking
    )
    return "\n".join(words)[-tokens * _CHARACTERS :]


def rows(folder: Path) -> Iterator[RetentionRow]:
    for path in sorted(folder.rglob("*.jsonl")):
        transcript = parse_session_file(read_file(path, max_bytes=MAX_SESSION_BYTES))
        queued = find_unrecorded(transcript.lines, transcript.records)
        found = split_threads(transcript.records)
        for thread in (found.main, *found.sidechains):
            for number, (before, summary) in enumerate(iter_compactions(thread.records), start=1):
                yield RetentionRow(path.stem[:12], number, compare_summaries(before, summary, queued))


def render_table(found: Sequence[RetentionRow]) -> str:
    head = ("session", "#", "summary", "tokens", *_COLUMNS.values(), "wrong", "score")
    lines = [_line(head), _line(["---"] * 3 + ["---:"] * (len(head) - 3))]
    for row in found:
        for who in SUMMARY_AUTHORS:
            first = (row.session, str(row.number)) if who == SUMMARY_AUTHORS[0] else ("", "")
            lines.append(_line((*first, who, *_cells(row.kept[who]))))
    for who in SUMMARY_AUTHORS:
        lines.append(
            _line(
                (
                    "**mean**" if who == SUMMARY_AUTHORS[0] else "",
                    "",
                    who,
                    *_means([r.kept[who] for r in found]),
                )
            )
        )
    return "\n".join(lines)


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _cells(kept: Retention) -> Iterator[str]:
    yield f"{kept.tokens:,}"
    for name in _COLUMNS:
        part = kept.parts[name]
        yield f"{part.kept + part.loosely}/{part.total}" if part.total else "–"
    yield f"{len(kept.wrong)}" if kept.wrong else "–"
    yield f"{kept.score:.2f}"


def _means(kept: Sequence[Retention]) -> Iterator[str]:
    """Shares are means over the compactions that had something to keep."""
    yield f"{sum(each.tokens for each in kept) / len(kept):,.0f}"
    for name in _COLUMNS:
        shares = [share for each in kept if (share := each.parts[name].loose_share) is not None]
        yield f"{sum(shares) / len(shares):.2f}" if shares else "–"
    yield f"{sum(len(each.wrong) for each in kept)}"
    yield f"{sum(each.score for each in kept) / len(kept):.2f}"


def main(arguments: Sequence[str]) -> int:
    page = Path(arguments[arguments.index("--into") + 1]) if "--into" in arguments[:-1] else None
    given = [each for each in arguments if each != "--into" and (page is None or each != str(page))]
    folder = Path(given[0]) if given else FOLDER
    if not folder.is_dir():
        print(f"No recorded sessions found in {folder}. Name a folder with session files.")
        return 0
    found = list(rows(folder))
    if not found:
        print(f"No session below {folder} was compacted, so there is nothing to compare.")
        return 0
    drawn = render_table(found)
    if page is None:
        print(drawn)
    else:
        edit_text(page, lambda text: insert_between(text, START, END, drawn))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except EverturnError as problem:
        sys.exit(str(problem))
