"""Charts of the dashboard, on the drawing functions of the replay page (DB-12).

A chart is an SVG that stretches to the available width, with labels in HTML beside it, and is complete
without a script. The script of the dashboard only adds a cursor and a description of the column under it; its
texts are in a JSON element beside the chart.
"""

from collections.abc import Callable, Sequence
from math import ceil
from typing import Final

import msgspec

from everturn.dashboard.grid import BUFFER, FREE, LABELS, Grid
from everturn.replay.page import plot
from everturn.replay.page.markup import Html, element, json_script
from everturn.web_dashboard.values import CallDetail, EditDetail

_X_LABELS: Final = 6
# The share of a column that its bar fills; the rest is a gap.
_BAR: Final = 0.78
# Beyond this many columns gaps would be thinner than a pixel.
_MAX_GAPS: Final = 160
_USUAL_WINDOW: Final = 200_000
GRID_NAMES: Final = {**LABELS, FREE: "Free", BUFFER: "Compaction buffer"}


class Layer(msgspec.Struct, frozen=True):
    """One colour of a chart: its CSS class, its name, and a value for each column."""

    kind: str
    name: str
    values: Sequence[float]


def columns(
    layers: Sequence[Layer],
    labels: Sequence[str],
    said: Sequence[Sequence[str]],
    *,
    label: str,
    unit: Callable[[float], str],
) -> Html:
    """Stacked bars. `said` has the lines that describe each column."""
    count = len(labels)
    sums = [sum(layer.values[x] for layer in layers) for x in range(count)]
    marks = plot.ticks(max(sums, default=0), wanted=4)
    top = marks[-1]
    wide = _BAR if count <= _MAX_GAPS else 1
    shapes = _bars(layers, top, wide)
    drawing = plot.svg(count, _lines(count, marks[1:], top), shapes, label=label)
    return _chart(
        element("div", _scale(marks[1:], top, unit), _plot(drawing), class_="row tall"),
        _x_axis(labels),
        said=said,
        name=label,
    )


def _bars(layers: Sequence[Layer], top: float, wide: float) -> list[Html]:
    shapes: list[Html] = []
    below = [0.0] * len(layers[0].values)
    for layer in layers:
        for x, value in enumerate(layer.values):
            if value > 0:
                low, high = plot.height_of(below[x], top), plot.height_of(below[x] + value, top)
                size = {"x": f"{x + (1 - wide) / 2:.3f}", "width": f"{wide:.3f}"}
                shapes.append(element("rect", y=high, height=max(1, low - high), class_=layer.kind, **size))
            below[x] += value
    return shapes


def line(values: Sequence[float | None], *, label: str, name: str) -> Html:
    """A line of shares from 0 to 1 under the same columns. It goes on over columns that have none."""
    points = [(x + 0.5, plot.height_of(value, 1)) for x, value in enumerate(values) if value is not None]
    drawn = [_stroke(points, name)] if points else []
    drawing = plot.svg(max(1, len(values)), _lines(len(values), (0.5, 1.0), 1), drawn, label=label)
    scale = _scale((0.5, 1.0), 1, lambda share: f"{share:.0%}")
    return element("div", scale, _plot(drawing), class_="row short")


def _stroke(points: Sequence[tuple[float, float]], name: str) -> Html:
    if len(points) == 1:
        (x, y), *_ = points
        points = [(x - 0.3, y), (x + 0.3, y)]
    return plot.line(points, name, class_="rate")


def context_chart(
    calls: Sequence[CallDetail],
    edits: Sequence[EditDetail],
    broken: Sequence[tuple[int, str]],
    window: int,
    said: Sequence[Sequence[str]],
    *,
    unit: Callable[[float], str],
) -> Html:
    """What filled the context at every call, and below it what each call paid, changed and broke. Four
    charts share their columns."""
    count = len(calls)
    marks = plot.ticks(max(max(call.context for call in calls), 1), wanted=4)
    top = marks[-1]
    layers = [(f"k-{kind}", [call.kinds[at] for call in calls]) for at, kind in enumerate(LABELS)]
    used = [(kind, values) for kind, values in layers if any(values)]
    limit = [plot.line([(0, plot.height_of(window, top)), (count, plot.height_of(window, top))], "window",
                       class_="limit")] if 0 < window <= top else []  # fmt: skip
    kinds = plot.svg(
        count,
        _lines(count, marks[1:], top),
        plot.stacked(used, top),
        limit,
        label=f"Context by kind over {count:,} calls",
    )
    rows = [
        element("div", _scale(marks[1:], top, unit), _plot(kinds), class_="row tall"),
        _lane("Compactions", "compacted", count, [(e.call, e.said) for e in edits if e.kind == "compaction"]),
        _lane("Other edits", "cleared", count, [(e.call, e.said) for e in edits if e.kind != "compaction"]),
        _lane("Cache breaks", "broke", count, broken),
        _paid(calls),
        _x_axis([f"call {call.number}" for call in calls]),
    ]
    return _chart(*rows, said=said, name=f"Context over {count:,} calls")


def _paid(calls: Sequence[CallDetail]) -> Html:
    """The share of each call's input that was read, written and uncached."""

    def part(of: Callable[[CallDetail], int]) -> list[float]:
        sums = [max(1, call.read + call.written + call.plain) for call in calls]
        return [of(call) / whole for call, whole in zip(calls, sums, strict=True)]

    layers = (
        ("read", part(lambda call: call.read)),
        ("write", part(lambda call: call.written)),
        ("plain", part(lambda call: call.plain)),
    )
    drawing = plot.svg(len(calls), plot.stacked(layers, 1), label="Read, written and uncached input")
    return element("div", element("div", "Read / written", class_="name"), _plot(drawing), class_="row strip")


def _lane(name: str, kind: str, count: int, found: Sequence[tuple[int, str]]) -> Html:
    marks = [
        plot.upright(min(number, count) - 0.5, f"Call {number}: {words}", class_=kind)
        for number, words in found
    ]
    drawing = plot.svg(count, marks, label=f"{name}: {len(found)}")
    title = element("div", name, " ", element("b", f"{len(found):,}"), class_="name")
    return element("div", title, _plot(drawing), class_="row lane")


def spark(values: Sequence[int], window: int, *, label: str) -> Html:
    """A small chart of context sizes. Its height is a usual window, so that two of them can be compared."""
    if not values:
        return element("div", class_="spark")
    top = max(*values, min(window or _USUAL_WINDOW, _USUAL_WINDOW), 1)
    drawing = plot.svg(len(values), plot.steps(values, top, class_="spark-area"), label=label)
    return element("div", drawing, class_="spark")


def meter(share: float, kind: str = "meter-fill") -> Html:
    """A bar that is filled to a share of its width; decoration beside a number, so it has no text."""
    return element(
        "span",
        element("span", class_=kind, style=f"width:{max(0.0, min(1.0, share)) * 100:.4g}%"),
        class_="meter",
        aria_hidden="true",
    )


def window_grid(found: Grid) -> Html:
    """The window as cells. The legend beside it has the numbers; the shape of a partial cell differs."""
    cells = [
        element(
            "i", class_=f"cell k-{cell.key}" + ("" if cell.full else " partial"), title=GRID_NAMES[cell.key]
        )
        for row in found
        for cell in row
    ]
    return element("div", cells, class_="window-grid", role="img", aria_label="The context window as cells")


def _chart(*rows: Html, said: Sequence[Sequence[str]], name: str) -> Html:
    texts = json_script(msgspec.json.encode(said).decode(), class_="chart-texts")
    return element(
        "div",
        element(
            "div",
            rows,
            element("div", class_="cursor", hidden=True),
            class_="plots",
            tabindex=0,
            role="group",
            aria_label=f"{name}. Use the left and right arrow keys to move between columns.",
        ),
        element("div", class_="tip", hidden=True, aria_live="polite"),
        texts,
        class_="chart",
        data_count=len(said),
    )


def _plot(drawing: Html) -> Html:
    return element("div", drawing, class_="plot")


def _lines(count: int, marks: Sequence[float], top: float) -> list[Html]:
    heights = [plot.height_of(mark, top) for mark in marks]
    return [element("line", x1=0, x2=max(1, count), y1=y, y2=y, class_="grid") for y in heights]


def _scale(marks: Sequence[float], top: float, unit: Callable[[float], str]) -> Html:
    words = [element("span", unit(mark), style=f"top:{100 - 100 * mark / top:.4g}%") for mark in marks]
    return element("div", words, class_="scale")


def _x_axis(labels: Sequence[str]) -> Html:
    count = len(labels)
    # Equal distances: labels at 1, 3, 4 and 6 look like a mistake.
    at = range(0, count, max(1, ceil(count / _X_LABELS)))
    words = [element("span", labels[x], style=f"left:{100 * (x + 0.5) / count:.4g}%") for x in at]
    return element("div", element("div"), element("div", words, class_="plot"), class_="row x-axis")
