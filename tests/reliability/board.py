"""The scoreboard of the last soak, written into the manual between two markers.

python -m reliability.board        with tests/ on the path, as `make board` calls it
"""

import re
import sys
from pathlib import Path
from typing import Final

import msgspec
from reliability.soak import RESULT, Board

PAGE: Final = Path("docs/reliability.md")
MOST_SEEDS: Final = 10
BETWEEN: Final = re.compile(r"(<!-- soak -->\n).*?(<!-- /soak -->)", re.DOTALL)


def table(board: Board) -> str:
    lines = [
        "| kind | trials | faults injected | survived | lost | unknown | at most |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for row in board.rows:
        made_of = f" ({row.units:,} {row.unit})" if row.unit else ""
        counts = f"{row.faults:,} | {row.survived:,} | {row.lost:,} | {row.unknown:,}"
        lines.append(f"| {row.kind} | {row.trials:,}{made_of} | {counts} | {row.bound} |")
    minutes = f"{board.workers} processes, {board.seconds / 60:,.1f} minutes"
    when = f"{board.date or 'no date'}, commit {board.commit or 'unknown'}, {seeds(board.seeds)}"
    lines += ["", f"{when}; {board.machine}, Python {board.python}, {minutes}."]
    return "\n".join([*lines, f"Durability: {board.durability}.", ""])


def seeds(every: tuple[int, ...]) -> str:
    """The seeds that runs began with; `build/soak/` has all of them."""
    more = f" and {len(every) - MOST_SEEDS} more" if len(every) > MOST_SEEDS else ""
    return f"seed{'s' if len(every) > 1 else ''} {', '.join(map(str, every[:MOST_SEEDS]))}{more}"


def written(page: str, board: Board) -> str:
    """The page with this table; raises where it has no place for one."""
    if not BETWEEN.search(page):
        raise SystemExit(f"{PAGE} has no <!-- soak --> and <!-- /soak --> to write between.")
    return BETWEEN.sub(lambda found: found[1] + table(board) + found[2], page)


def main() -> None:
    if not RESULT.is_file():
        raise SystemExit(f"There is no {RESULT}; run `make soak` first.")
    board = msgspec.json.decode(RESULT.read_bytes(), type=Board)
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), board), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
