"""Where the labels of dots stand, so that they can be read on a phone and on a screen.

The picture stretches to the available width and labels keep their size. Without a script in the page, places
are chosen here that are free at every width.
"""

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

Side = Literal["above", "right", "left", "below", "above-right", "above-left"]

# Widths of the picture, in pixels, at which no label covers another: in a page of 390, of 768 and of 1120 and
# more. Labels keep their size, so a place that is free on a phone may be taken on a screen.
_WIDTHS: Final = (270, 630, 1_010)
_HEIGHT: Final = 300
# A dot, and a character and a line of a label, in pixels. A label of 12 px bold has 7 to 8 for a digit.
_DOT: Final = 10
_CHARACTER: Final = 8
_LINE: Final = 16
# Dots that are nearer to each other than this share of the picture have one label.
_NEAR: Final = 4.0
_SIDES: Final[tuple[Side, ...]] = ("above", "right", "left", "below", "above-right", "above-left")


class Point(NamedTuple):
    """Where a policy is, in percent from the left and from the bottom."""

    x: float
    y: float


class Label(NamedTuple):
    """The numbers of policies whose dots are close together, and on which side of the dots they stand."""

    numbers: tuple[int, ...]
    side: Side


class Box(NamedTuple):
    """In pixels from the left and from the bottom."""

    left: float
    right: float
    bottom: float
    top: float


def spell_numbers(numbers: Sequence[int]) -> str:
    """`1, 3–6`: three or more in a row are a range."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]}–{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)


def place_labels(points: Sequence[Point]) -> list[Label]:
    """Labels that cover neither each other nor a dot. Where there is no place for one, its dots share the
    label of the nearest others."""
    groups = _join_near(points)
    while True:
        placed: list[Label] = []
        for group in groups:
            labels = [Label(group, side) for side in _SIDES]
            free = next((label for label in labels if _is_free(label, placed, points)), None)
            if free is None and len(groups) > 1:
                groups = _join_nearest(group, groups, points)
                break
            placed.append(free or labels[0])
        else:
            return placed


def _join_near(points: Sequence[Point]) -> list[tuple[int, ...]]:
    """The numbers of points that are near to the first of their group."""
    groups: list[tuple[int, ...]] = []
    for number, point in enumerate(points, start=1):
        at = next((at for at, group in enumerate(groups) if _is_near(points[group[0] - 1], point)), None)
        if at is None:
            groups.append((number,))
        else:
            groups[at] += (number,)
    return groups


def _is_near(one: Point, other: Point) -> bool:
    return abs(one.x - other.x) < _NEAR and abs(one.y - other.y) < _NEAR


def _join_nearest(
    group: tuple[int, ...], groups: Sequence[tuple[int, ...]], points: Sequence[Point]
) -> list[tuple[int, ...]]:
    x, y = _middle(group, points)

    def distance(other: tuple[int, ...]) -> float:
        other_x, other_y = _middle(other, points)
        return (x - other_x) ** 2 + (y - other_y) ** 2

    nearest = min((other for other in groups if other != group), key=distance)
    joined = tuple(sorted(group + nearest))
    return sorted([joined, *(other for other in groups if other not in (group, nearest))])


def _is_free(label: Label, placed: Sequence[Label], points: Sequence[Point]) -> bool:
    """Whether it is inside the picture and covers nothing, at every width."""
    for width in _WIDTHS:
        box = _label_box(label, points, width)
        # Above and on the right there is a margin; left and below are the axes, on which a dot may stand.
        if min(box.left, box.bottom) < -_DOT / 2 or box.right > width + 2 * _DOT:
            return False
        taken = [_label_box(each, points, width) for each in placed]
        taken += [_dot_box(point, width) for point in points]
        if any(_overlap(box, each) for each in taken):
            return False
    return True


def _middle(group: Sequence[int], points: Sequence[Point]) -> Point:
    chosen = [points[number - 1] for number in group]
    return Point(sum(x for x, _ in chosen) / len(chosen), sum(y for _, y in chosen) / len(chosen))


def anchor(label: Label, points: Sequence[Point]) -> Point:
    """The end of the group on the label's side."""
    chosen = [points[number - 1] for number in label.numbers]
    x, y = _middle(label.numbers, points)
    if label.side in ("left", "right"):
        return Point((min if label.side == "left" else max)(each.x for each in chosen), y)
    return Point(x, (min if label.side == "below" else max)(each.y for each in chosen))


def _label_box(label: Label, points: Sequence[Point], width: int) -> Box:
    """As the style sheet places it (`.scatter .above` and so on)."""
    at = anchor(label, points)
    x, y = at.x * width / 100, at.y * _HEIGHT / 100
    wide = _CHARACTER * len(spell_numbers(label.numbers))
    half = _DOT / 2
    off = half + 1
    return {
        "above": Box(x - wide / 2, x + wide / 2, y + off, y + off + _LINE),
        "below": Box(x - wide / 2, x + wide / 2, y - off - _LINE, y - off),
        "left": Box(x - off - wide, x - off, y - _LINE / 2, y + _LINE / 2),
        "right": Box(x + off, x + off + wide, y - _LINE / 2, y + _LINE / 2),
        "above-right": Box(x - half, x - half + wide, y + off, y + off + _LINE),
        "above-left": Box(x + half - wide, x + half, y + off, y + off + _LINE),
    }[label.side]


def _dot_box(point: Point, width: int) -> Box:
    x, y, half = point.x * width / 100, point.y * _HEIGHT / 100, _DOT / 2
    return Box(x - half, x + half, y - half, y + half)


def _overlap(one: Box, other: Box) -> bool:
    return (
        one.left < other.right
        and other.left < one.right
        and one.bottom < other.top
        and other.bottom < one.top
    )
