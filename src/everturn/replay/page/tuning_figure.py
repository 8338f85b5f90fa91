"""A picture of cost against refetches, one dot per policy, as a page of its own (EC-9)."""

from collections.abc import Sequence
from typing import Final

from everturn.replay.compare import ComparisonRow, ComparisonTable, describe_saving
from everturn.replay.page import formatting, plot
from everturn.replay.page.document import wrap_page
from everturn.replay.page.dot_labels import Label, Point, anchor, place_labels, spell_numbers
from everturn.replay.page.markup import Html, element

_HEADS: Final = ("Policy", "Dollars", "Saved", "Refetches / 100")


def render_tuning(compared: ComparisonTable, said: str) -> str:
    """`said` is the recommendation in a sentence."""
    rows = [row for row in compared.rows if row.calls]
    table = element(
        "table",
        element("thead", element("tr", [element("th", head, scope="col") for head in _HEADS])),
        element(
            "tbody",
            # Each cell with its heading: on a phone a row is a list, without columns that could be cut off.
            [
                element(
                    "tr",
                    [
                        element("td", element("span", cell), data_head=head)
                        for head, cell in zip(_HEADS, _cells(number, row), strict=True)
                    ],
                )
                for number, row in enumerate(rows, start=1)
            ],
        ),
        class_="cards",
    )
    return wrap_page(
        "Cost against refetches",
        element(
            "main",
            element("h1", "Cost against refetches"),
            element("p", said),
            element(
                "section",
                element(
                    "p",
                    "Left is cheaper, down is fewer refetches. Policies are numbered as in the table; "
                    "several numbers stand at dots that are close together.",
                    class_="soft",
                ),
                _figure(rows),
                element("div", table, class_="scroll"),
            ),
            element("footer", "Made by everturn. This file is self-contained and makes no network requests."),
        ),
    )


def _cells(number: int, row: ComparisonRow) -> tuple[str, str, str, str]:
    saved = describe_saving(row.against_recorded) if row.against_recorded is not None else "–"
    return (
        f"{number} {row.policy}",
        f"${row.dollars:,.2f}",
        formatting.signed(saved),
        f"{row.refetches_per_100:.1f}",
    )


def _figure(rows: Sequence[ComparisonRow]) -> Html:
    """Labels are HTML, so that they stay readable on a phone."""
    dollars = plot.ticks(max((float(row.dollars) for row in rows), default=0.0) or 1.0, wanted=4)
    refetches = plot.ticks(max((row.refetches_per_100 for row in rows), default=0.0) or 1.0, wanted=4)
    points = [
        Point(100 * float(row.dollars) / dollars[-1], 100 * row.refetches_per_100 / refetches[-1])
        for row in rows
    ]
    across = [
        element("span", formatting.axis_dollars(mark), class_="across", style=f"left:{_share(mark, dollars)}")
        for mark in dollars
    ]
    up = [
        element("span", f"{mark:g}", class_="up", style=f"bottom:{_share(mark, refetches)}")
        for mark in refetches
    ]
    dots = [element("span", class_="dot", style=f"left:{x:.4g}%;bottom:{y:.4g}%") for x, y in points]
    labels = [_draw_label(label, points) for label in place_labels(points)]
    return element(
        "div",
        element("div", "refetches per 100 calls", class_="axis"),
        element("div", up, across, dots, labels, class_="scatter"),
        element("div", "dollars", class_="axis right"),
        role="img",
        aria_label="Cost against refetches, one dot per policy",
    )


def _share(mark: float, marks: Sequence[float]) -> str:
    return f"{100 * mark / marks[-1]:.4g}%"


def _draw_label(label: Label, points: Sequence[Point]) -> Html:
    x, y = anchor(label, points)
    return element(
        "b",
        spell_numbers(label.numbers),
        class_=f"number {label.side}",
        style=f"left:{x:.4g}%;bottom:{y:.4g}%",
    )
