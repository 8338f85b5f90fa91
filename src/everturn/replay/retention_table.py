"""What recorded compactions kept, compared with the summary that needs no model (BY-5, BY-6).

    python -m everturn.replay.retention_table [FOLDER] [--into PAGE]

For every compaction in the sessions below FOLDER: the records that it replaced, the summary that a model
wrote then, and our summary of the same records, once with its own budget and once with no more tokens than
the model's. `--into` writes the table between the markers of a page.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec

from everturn.decide.extractive import summarize
from everturn.decide.retention import Retention, measure_retention
from everturn.history.blocks import text_of
from everturn.history.log import Log
from everturn.history.records import Record
from everturn.history.threads import split_threads
from everturn.wire.claude_code_reader import parse_session_file

FOLDER: Final = Path("../shared/data/claude-code")
START, END = "<!-- retention table -->", "<!-- end of the retention table -->"

SummaryAuthor = Literal["model", "ours", "ours, same size"]
SUMMARY_AUTHORS: Final[tuple[SummaryAuthor, ...]] = ("model", "ours", "ours, same size")
_COLUMNS: Final = ("user", "paths", "names", "errors", "pending")


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


def compare_summaries(before: Sequence[Record], summary: str) -> dict[SummaryAuthor, Retention]:
    by_model = measure_retention(before, summary)
    return {
        "model": by_model,
        "ours": measure_retention(before, summarize(before).text),
        "ours, same size": measure_retention(before, summarize(before, budget=by_model.tokens).text),
    }


def rows(folder: Path) -> Iterator[RetentionRow]:
    for path in sorted(folder.rglob("*.jsonl")):
        found = split_threads(parse_session_file(path.read_bytes()).records)
        for thread in (found.main, *found.sidechains):
            for number, (before, summary) in enumerate(iter_compactions(thread.records), start=1):
                yield RetentionRow(path.stem[:12], number, compare_summaries(before, summary))


def render_table(found: Sequence[RetentionRow]) -> str:
    head = ("session", "#", "summary", "tokens", *_COLUMNS, "score", "loose", "per 1K tokens")
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
    for part in kept.parts.values():
        yield f"{part.kept}/{part.total}" if part.total else "–"
    yield f"{kept.score:.2f}"
    yield f"{kept.loose_score:.2f}"
    yield f"{kept.score_per_thousand_tokens:.2f}"


def _means(kept: Sequence[Retention]) -> Iterator[str]:
    """Shares are means over the compactions that had something to keep."""
    yield f"{sum(each.tokens for each in kept) / len(kept):,.0f}"
    for name in kept[0].parts:
        shares = [share for each in kept if (share := each.parts[name].share) is not None]
        yield f"{sum(shares) / len(shares):.2f}" if shares else "–"
    yield f"{sum(each.score for each in kept) / len(kept):.2f}"
    yield f"{sum(each.loose_score for each in kept) / len(kept):.2f}"
    yield f"{sum(each.score_per_thousand_tokens for each in kept) / len(kept):.2f}"


def insert_table(page: str, drawn: str) -> str:
    """The page with the table between its markers."""
    before, start, rest = page.partition(START)
    _, end, after = rest.partition(END)
    if not start or not end:
        raise SystemExit(f"The page has no markers. Put {START} and {END} where the table belongs.")
    return f"{before}{START}\n{drawn}\n{END}{after}"


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
        page.write_text(insert_table(page.read_text(encoding="utf-8"), drawn), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
