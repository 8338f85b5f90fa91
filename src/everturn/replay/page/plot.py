"""Shapes over the calls of a session. Each call is one unit wide, so every x is an integer.

Drawings stretch to the available width (`preserveAspectRatio="none"`), lines keep their thickness, and labels
are HTML. The same drawing works on a laptop and on a phone.
"""

from collections.abc import Iterable, Sequence
from math import ceil, floor, log10
from typing import Final

from everturn.replay.page.markup import Html, element, joined

HEIGHT: Final = 1_000


def svg(width: int, *shapes: Iterable[str] | str, label: str, **attributes: str) -> Html:
    return element(
        "svg",
        *shapes,
        viewBox=f"0 0 {max(1, width)} {HEIGHT}",
        preserveAspectRatio="none",
        role="img",
        aria_label=label,
        **attributes,
    )


def steps(values: Sequence[float], top: float, **attributes: str) -> Html:
    """The area below the values, one step per value."""
    path = [f"M0 {HEIGHT}"]
    drawn = HEIGHT
    for x, value in enumerate(values):
        y = height_of(value, top)
        if y != drawn:
            path.append(f"H{x}V{y}" if x else f"V{y}")
            drawn = y
    path.append(f"H{len(values)}V{HEIGHT}Z")
    return element("path", d="".join(path), **attributes)


def stacked(layers: Sequence[tuple[str, Sequence[float]]], top: float) -> Html:
    """Stacked layers from the bottom up, as (class, values). Larger sums are painted first."""
    sums: list[tuple[str, list[float]]] = []
    below: Sequence[float] = [0] * len(layers[0][1])
    for name, values in layers:
        below = [a + b for a, b in zip(below, values, strict=True)]
        sums.append((name, list(below)))
    return joined(steps(values, top, class_=name) for name, values in reversed(sums))


def upright(x: float, said: str, **attributes: str) -> Html:
    """A vertical line with a tooltip."""
    title = element("title", said) if said else ""
    return element("line", title, x1=x, x2=x, y1=0, y2=HEIGHT, **attributes)


def line(points: Sequence[tuple[float, float]], said: str, **attributes: str) -> Html:
    spelled = " ".join(f"{x:g},{y:g}" for x, y in points)
    return element("polyline", element("title", said), points=spelled, **attributes)


def height_of(value: float, top: float) -> int:
    return round(HEIGHT * (1 - value / top)) if top else HEIGHT


def ticks(most: float, wanted: int = 4) -> tuple[float, ...]:
    """Round numbers from zero to the first one that is at least `most`."""
    if most <= 0:
        return (0.0, 1.0)
    rough = most / wanted
    size = 10.0 ** floor(log10(rough))
    step = next(size * times for times in (1, 2, 2.5, 5, 10) if size * times >= rough)
    return tuple(step * number for number in range(ceil(most / step) + 1))


def swatches(names: Iterable[tuple[str, str]]) -> Html:
    """The legend: what each colour or line means, as (class, label)."""
    keys = [element("li", element("i", class_=f"swatch {kind}"), name) for kind, name in names]
    return element("ul", keys, class_="legend")
