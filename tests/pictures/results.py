"""The total cost of each policy on the recorded sessions, as a picture of the table in docs/results.md.

PYTHONPATH=tests python -m pictures.results docs/results.md FILE.svg
"""

import sys
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

_START = "<!-- replay: economic -->"
_NAMES, _BARS, _ROW, _TOP, _WIDTH = 170, 340, 30, 74, 860
_FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"
# They end before the session does, or know what comes: their totals cannot be compared.
_LEFT_OUT = ("none", "clears-only")


class Row(NamedTuple):
    policy: str
    dollars: float
    words_kept: float
    refetches: float


def read_rows(page: str) -> tuple[str, list[Row]]:
    """The title of the first table behind the mark, and its rows."""
    lines = iter(page.partition(_START)[2].splitlines())
    title = next(line.removeprefix("### ") for line in lines if line.startswith("### "))
    head, _, *body = _table(lines)
    cells = [dict(zip(head, row, strict=True)) for row in body]
    rows = [
        Row(
            each["policy"].rstrip("*"),
            float(each["dollars"].lstrip("$").replace(",", "")),
            float(each["words kept"].rstrip("%")),
            float(each["refetches/100"]),
        )
        for each in cells
    ]
    return title, [row for row in rows if row.policy not in _LEFT_OUT]


def _table(lines: Iterator[str]) -> list[list[str]]:
    found: list[list[str]] = []
    for line in lines:
        if line.startswith("|"):
            found.append([cell.strip() for cell in line.strip("|").split("|")])
        elif found:
            break
    return found


def draw(title: str, rows: Sequence[Row]) -> str:
    height, most = _TOP + _ROW * len(rows) + 16, max(row.dollars for row in rows)
    bars = "\n".join(_bar(row, _TOP + _ROW * at, most) for at, row in enumerate(rows))
    heads = "".join(
        f'<text class="q" x="{x}" y="58" text-anchor="end">{text}</text>'
        for x, text in ((_WIDTH - 140, "user's words kept"), (_WIDTH - 16, "refetches/100"))
    )
    size = f'viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}"'
    return f"""<svg xmlns="http://www.w3.org/2000/svg" {size}>
<title>{escape(title)}</title>
<style>
text {{ font: 14px {_FONT}; fill: #1f2328; }}
.q {{ fill: #59636e; font-size: 12px; }}
.t {{ font-size: 16px; font-weight: 600; }}
</style>
<rect width="{_WIDTH}" height="{height}" rx="8" fill="#ffffff" stroke="#d1d9e0"/>
<text class="t" x="16" y="30">{escape(title)}</text>
<text class="q" x="16" y="58">policy</text>{heads}
{bars}
</svg>
"""


def _bar(row: Row, top: float, most: float) -> str:
    length, color = max(2.0, _BARS * row.dollars / most), "#59636e" if row.policy == "recorded" else "#2a6fb0"
    right = (
        (f"{row.words_kept:.1f} %", _WIDTH - 140),
        (f"{row.refetches:.1f}", _WIDTH - 16),
    )
    told = "".join(f'<text x="{x}" y="{top + 17}" text-anchor="end">{text}</text>' for text, x in right)
    return (
        f'<text x="16" y="{top + 17}">{escape(row.policy)}</text>'
        f'<rect x="{_NAMES}" y="{top + 4}" width="{length:.1f}" height="18" rx="3" fill="{color}"/>'
        f'<text x="{_NAMES + length + 8:.1f}" y="{top + 17}">${row.dollars:,.0f}</text>{told}'
    )


def main() -> None:
    page, out = sys.argv[1:]
    Path(out).write_text(draw(*read_rows(Path(page).read_text(encoding="utf-8"))), encoding="utf-8")


if __name__ == "__main__":
    main()
