"""The picture of `everturn tune --html`."""

import itertools
import random
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from replay.browser import browser

from everturn.replay.compare import ComparisonRow, ComparisonTable, Saving
from everturn.replay.page.dot_labels import Label, Point, place_labels, spell_numbers
from everturn.replay.page.tuning_figure import render_tuning

# The texts of labels that cover another label, a dot or a number of an axis, or that are outside the figure.
COVERED = """() => {
  const box = (each) => each.getBoundingClientRect();
  const meet = (a, b) => a.left < b.right - .5 && b.left < a.right - .5
    && a.top < b.bottom - .5 && b.top < a.bottom - .5;
  const labels = [...document.querySelectorAll('.scatter .number')];
  const others = [...labels, ...document.querySelectorAll('.scatter .dot, .scatter .up, .scatter .across')];
  const frame = box(document.querySelector('section'));
  const isOutside = (label) => box(label).right > frame.right || box(label).left < frame.left;
  const isCovered = (label) => others.some((other) => other !== label && meet(box(label), box(other)));
  return labels.filter((label) => isOutside(label) || isCovered(label)).map((each) => each.textContent);
}"""
BEYOND = "document.querySelector('.scroll').scrollWidth - document.querySelector('.scroll').clientWidth"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as found:
        yield found


def row(policy: str, dollars: float, refetches: float) -> ComparisonRow:
    return ComparisonRow(
        policy=policy,
        calls=10,
        dollars=Decimal(str(dollars)),
        refetches_per_100=refetches,
        against_recorded=Saving(),
    )


def page_of(places: list[tuple[float, float]]) -> str:
    rows = tuple(row(f"policy {at}", *place) for at, place in enumerate(places, start=1))
    return render_tuning(ComparisonTable(rows=rows, sessions=3), "Recommended: none.")


def test_dots_that_cover_each_other_have_one_label_with_all_numbers():
    points = [Point(10, 50), Point(60, 50), Point(12, 49), Point(10, 80)]
    assert place_labels(points) == [Label((1, 3), "above"), Label((2,), "above"), Label((4,), "above")]


def test_a_label_goes_to_the_side_where_nothing_is():
    # The second dot is where the label of the first would be; the last two are at the ends of the axis.
    assert place_labels([Point(50, 50), Point(50, 54.5), Point(57, 54.5), Point(100, 0), Point(0, 0)]) == [
        Label((1,), "right"),
        Label((2,), "above"),
        Label((3,), "above"),
        Label((4,), "above"),
        Label((5,), "above"),
    ]


def test_dots_without_a_place_for_their_labels_share_one():
    # Five columns and five rows, four pixels more apart than a dot is wide on a phone: no label fits inside.
    crowd = [Point(50 + 5.2 * x, 40 + 4.6 * y) for x in range(5) for y in range(5)]
    labels = place_labels(crowd)
    assert sorted(number for label in labels for number in label.numbers) == list(range(1, 26))
    assert len(labels) < len(crowd)


def test_three_or_more_numbers_in_a_row_are_a_range():
    assert [spell_numbers(each) for each in ((4,), (1, 2), (1, 3, 4, 5), (2, 3, 4, 7, 8))] == [
        "4",
        "1, 2",
        "1, 3–5",
        "2–4, 7, 8",
    ]


@pytest.mark.spec("EC-9")
def test_in_a_browser_no_label_covers_another_or_a_dot(chromium, tmp_path: Path):
    chance = random.Random(19)
    pictures = [
        [(21.4, 0.0), (20.9, 3.1), (15.1, 9.2), (15.3, 8.9), (17.2, 4.4), (14.0, 8.0), (14.9, 8.4)],
        [(3.0, 0.0), (3.0, 0.0), (3.0, 0.0)],
        [(0.0, 0.0), (10.0, 10.0), (10.0, 0.0)],
        *([(chance.uniform(4, 7), chance.uniform(0, 9)) for _ in range(9)] for _ in range(3)),
    ]
    file = tmp_path / "page.html"
    found: list[tuple[int, int, float, list[str]]] = []
    for (number, places), width in itertools.product(enumerate(pictures), (390, 768, 1280, 2560)):
        file.write_text(page_of(places))
        page = chromium.new_page(viewport={"width": width, "height": 900})
        page.goto(file.as_uri())
        wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        found.append((number, width, max(0, wide), page.evaluate(COVERED)))
        page.close()
    assert [each for each in found if each[2:] != (0, [])] == []


@pytest.mark.spec("EC-9")
def test_on_a_phone_the_whole_table_is_seen(chromium, tmp_path: Path):
    file = tmp_path / "page.html"
    file.write_text(page_of([(21.4, 0.0), (14.0, 8.0)]))
    page = chromium.new_page(viewport={"width": 390, "height": 900})
    page.goto(file.as_uri())
    assert page.evaluate(BEYOND) == 0
    assert page.locator("tbody tr").nth(1).inner_text().split() == [
        "2",
        "policy",
        "2",
        "$14.00",
        "+0.0%",
        "8.0",
    ]
    page.close()
