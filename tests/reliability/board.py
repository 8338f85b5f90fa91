"""The scoreboard: all runs on this source, added up in the manual between two markers.

    python -m reliability.board        with tests/ on the path, as `make soak-board` calls it

The runs themselves are kept beside the manual (`docs/soak/`), those on other code are removed from there.
"""

import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec
from reliability.kinds import KINDS
from reliability.ledger import FOLDER, PUBLISHED, Run, on_same_source, read_runs
from reliability.score import Row, added
from reliability.soak import find_sources

PAGE: Final = Path("docs/reliability.md")
MOST_SEEDS: Final = 3
BETWEEN: Final = re.compile(r"(<!-- soak -->\n).*?(<!-- /soak -->)", re.DOTALL)
DURABILITY: Final = (
    "kills and disk-failures: fsync always, SIGKILL (what the system has survives), a file system in memory "
    "where there is one; "
    "power-cuts: fsync always, simulated disk that loses unsynced pages; steps and conversations: no sync"
)


def table(runs: Iterable[Run]) -> str:
    runs = tuple(runs)
    lines = [
        "| kind | trials | faults injected | survived | lost | unknown | at most | from seed |",
        "|---|---:|---:|---:|---:|---:|---:|---|",
    ]
    for kind in KINDS:
        of_kind = [each for each in runs if kind in each.rows]
        if of_kind:
            lines.append(_line(added([each.rows[kind] for each in of_kind]), of_kind))
    cores = sum(row.seconds for each in runs for row in each.rows.values()) / 3_600
    hours = f"{sum(each.seconds for each in runs) / 3_600:.1f} hours, {cores:.1f} hours of CPU time"
    where = "; ".join(_unique(f"{each.machine}, Python {each.python}" for each in runs if each.machine))
    dates, commits = (", ".join(_unique(each)) for each in ((x.date for x in runs), (x.commit for x in runs)))
    lines += ["", f"{dates}, commit {commits}; {where}; {hours}."]
    return "\n".join([*lines, f"Durability: {DURABILITY}.", ""])


def _line(row: Row, runs: Iterable[Run]) -> str:
    made_of = f" ({row.units:,} {row.unit})" if row.unit else ""
    counts = f"{row.faults:,} | {row.survived:,} | {row.lost:,} | {row.unknown:,}"
    seeds = name_seeds([each.seed for each in runs])
    return f"| {row.kind} | {row.trials:,}{made_of} | {counts} | {row.bound} | {seeds} |"


def name_seeds(every: list[int]) -> str:
    """The seeds that runs began with; `docs/soak/` has all of them."""
    more = f" and {len(every) - MOST_SEEDS} more" if len(every) > MOST_SEEDS else ""
    return ", ".join(map(str, every[:MOST_SEEDS])) + more


def _unique(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(value for value in values if value))


def written(page: str, runs: Iterable[Run]) -> str:
    """The page with this table; raises where it has no place for one."""
    if not BETWEEN.search(page):
        raise SystemExit(f"{PAGE} has no <!-- soak --> and <!-- /soak --> to write between.")
    return BETWEEN.sub(lambda found: found[1] + table(runs) + found[2], page)


def publish(runs: Mapping[str, Run], folder: Path) -> None:
    """These runs, and no others, in files that are the same for the same runs."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob("*.json"):
        if path.name not in runs:
            path.unlink()
    for name, each in runs.items():
        (folder / name).write_bytes(msgspec.json.encode(each) + b"\n")


def main() -> None:
    sources = find_sources(KINDS)
    every = {name: on_same_source(each, sources) for name, each in read_runs(PUBLISHED, FOLDER).items()}
    runs = {name: each for name, each in every.items() if each is not None}
    if not runs:
        raise SystemExit("No run of this source is kept; run `make soak` first.")
    page = written(PAGE.read_text(encoding="utf-8"), runs.values())
    publish(runs, PUBLISHED)
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
