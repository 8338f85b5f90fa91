"""How many mutants died, per package, with an interval; and the table in the manual."""

import re
from collections.abc import Iterable, Sequence
from math import sqrt
from typing import Final, NamedTuple

# 95 % of a normal distribution.
Z: Final = 1.96
BETWEEN: Final = re.compile(r"(<!-- mutants -->\n).*?(<!-- /mutants -->)", re.DOTALL)
NOTICED: Final = frozenset({"killed", "hung", "crashed"})


class Row(NamedTuple):
    """What became of one mutant."""

    number: int
    path: str
    line: int
    kind: str
    outcome: str
    by: str
    # How many tests were asked.
    tests: int
    diff: str

    @property
    def package(self) -> str:
        return self.path.split("/")[2]

    @property
    def is_noticed(self) -> bool:
        return self.outcome in NOTICED


class Share(NamedTuple):
    name: str
    killed: int
    mutants: int

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's: where the true share is with 95 % confidence."""
        n, p = self.mutants, self.killed / self.mutants
        middle = (p + Z**2 / (2 * n)) / (1 + Z**2 / n)
        half = Z / (1 + Z**2 / n) * sqrt(p * (1 - p) / n + Z**2 / (4 * n**2))
        return max(0.0, middle - half), min(1.0, middle + half)

    def cells(self) -> list[str]:
        low, high = self.interval
        share = f"{self.killed / self.mutants:.1%}"
        return [self.name, str(self.mutants), str(self.killed), share, f"{low:.0%} to {high:.0%}"]


def shares(rows: Sequence[Row], packages: Iterable[str]) -> list[Share]:
    parts = [(name, [row for row in rows if row.package == name]) for name in packages]
    parts.append(("all", list(rows)))
    return [Share(name, sum(row.is_noticed for row in part), len(part)) for name, part in parts if part]


HEADINGS: Final = ["package", "mutants", "killed", "share", "95 % interval"]


def text_table(found: Sequence[Share]) -> str:
    rows = [HEADINGS, *(share.cells() for share in found)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(HEADINGS))]
    return "\n".join(
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True))]
        )
        for row in rows
    )


def page_table(found: Sequence[Share], told: str) -> str:
    lines = ["| " + " | ".join(HEADINGS) + " |", "|---|---:|---:|---:|---:|"]
    lines += ["| " + " | ".join(share.cells()) + " |" for share in found]
    return "\n".join([*lines, "", told, ""])


def write_into(page: str, table: str) -> str:
    if not BETWEEN.search(page):
        raise SystemExit("The page has no <!-- mutants --> and <!-- /mutants --> to write between.")
    return BETWEEN.sub(lambda found: found[1] + table + found[2], page)
