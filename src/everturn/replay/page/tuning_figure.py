"""A picture of cost against refetches, one point per policy, as a page of its own (EC-9)."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from everturn.replay.compare import ComparisonRow, ComparisonTable, describe_saving
from everturn.replay.page import formatting, plot
from everturn.replay.page.document import wrap_page
from everturn.replay.page.markup import Html, element

# Points that are nearer to each other than this share of the picture would cover their numbers.
_NEAR: Final = 4.0


class Point(NamedTuple):
    """Where it is, in percent from the left and from the bottom, and the numbers of its policies."""

    x: float
    y: float
    numbers: tuple[int, ...]


def render_tuning(compared: ComparisonTable, said: str) -> str:
    """`said` is the recommendation in a sentence."""
    rows = [row for row in compared.rows if row.calls]
    heads = ("policy", "dollars", "saved", "refetches / 100")
    table = element(
        "table",
        element("tr", [element("th", head) for head in heads]),
        [
            element("tr", [element("td", cell) for cell in _cells(number, row)])
            for number, row in enumerate(rows, start=1)
        ],
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
                    "Left is cheaper, down is fewer refetches. Policies are numbered as in the table.",
                    class_="soft",
                ),
                _figure(rows),
                element("div", table, class_="scroll"),
            ),
            element("footer", "Made by everturn. This file is self-contained and makes no network requests."),
        ),
    )


def _cells(number: int, row: ComparisonRow) -> tuple[str, str, str, str]:
    saved = describe_saving(row.against_recorded) if row.against_recorded is not None else "-"
    return f"{number} {row.policy}", f"${row.dollars:,.2f}", saved, f"{row.refetches_per_100:.1f}"


def _figure(rows: Sequence[ComparisonRow]) -> Html:
    """Labels are HTML, so that they stay readable on a phone."""
    dollars = plot.ticks(max((float(row.dollars) for row in rows), default=0.0) or 1.0, wanted=4)
    refetches = plot.ticks(max((row.refetches_per_100 for row in rows), default=0.0) or 1.0, wanted=4)
    points = [
        Point(100 * float(row.dollars) / dollars[-1], 100 * row.refetches_per_100 / refetches[-1], (number,))
        for number, row in enumerate(rows, start=1)
    ]
    across = [
        element("span", formatting.axis_dollars(mark), class_="across", style=f"left:{_share(mark, dollars)}")
        for mark in dollars
    ]
    up = [
        element("span", f"{mark:g}", class_="up", style=f"bottom:{_share(mark, refetches)}")
        for mark in refetches
    ]
    dots = [
        element(
            "span",
            element("b", ", ".join(map(str, each.numbers))),
            class_="dot",
            style=f"left:{each.x:.4g}%;bottom:{each.y:.4g}%",
        )
        for each in join_near(points)
    ]
    return element(
        "div",
        element("div", "refetches per 100 calls", class_="axis"),
        element("div", up, across, dots, class_="scatter"),
        element("div", "dollars", class_="axis right"),
        role="img",
        aria_label="Cost against refetches, one point per policy",
    )


def _share(mark: float, marks: Sequence[float]) -> str:
    return f"{100 * mark / marks[-1]:.4g}%"


def join_near(points: Sequence[Point]) -> list[Point]:
    """Points that would cover each other become one, at the place of the first, with all numbers."""
    found: list[Point] = []
    for point in points:
        near = next((each for each in found if _is_near(each, point)), None)
        if near is None:
            found.append(point)
        else:
            found[found.index(near)] = near._replace(numbers=near.numbers + point.numbers)
    return found


def _is_near(one: Point, other: Point) -> bool:
    return abs(one.x - other.x) < _NEAR and abs(one.y - other.y) < _NEAR
