"""Charts of what policies cost: bars by kind with the two bounds, and cumulative cost per call.

The bounds (RP-9, EC-12) are lines across all bars: no policy can be left of the floor, and the clairvoyant
plan knows the future.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final

from everturn.replay.compare import Saving, short_saving, state_saving
from everturn.replay.page import formatting, plot
from everturn.replay.page.markup import Html, element
from everturn.replay.page.session_comparison import PolicyTotals, SessionComparison, baseline, in_order
from everturn.replay.runs import ReplayRun

# Order from the left: the cheapest per token first.
KINDS: Final = {
    "read": "cache reads",
    "write_5m": "5m writes",
    "write_1h": "1h writes",
    "plain": "uncached input",
    "output": "output",
    "summaries": "summaries",
    "refresh": "refreshes",
    "refetches": "refetches",
}
_WIDE: Final = 1_000
# A name with its amount takes about this share of the width of a phone.
_NARROW: Final = 0.3
# More points than this cannot be distinguished on a laptop screen.
_POINTS: Final = 300
# The height of a label in percent of the chart.
_LABEL: Final = 8.5


def bars(
    found: Sequence[PolicyTotals],
    floor: Decimal | None,
    clairvoyant: Decimal | None,
    savings: Mapping[str, Saving],
) -> Html:
    """`savings` are those against the baseline, by policy, as the table below the bars has them."""
    most = max([each.dollars for each in found] + [each for each in (floor, clairvoyant) if each is not None])
    bounds = [
        (name, each) for name, each in (("floor", floor), ("clairvoyant", clairvoyant)) if each is not None
    ]
    base = baseline(found)
    rows = [_bar(each, _compared(each, base, savings), bounds, most) for each in in_order(found)]
    return element("div", rows, _bound_names(bounds, most), class_="bars")


def legend(found: Sequence[PolicyTotals]) -> Html:
    used = {kind for each in found for kind, amount in each.by_kind.items() if amount}
    return plot.swatches((kind, name) for kind, name in KINDS.items() if kind in used)


def so_far(session: SessionComparison, chosen: str) -> Html:
    """One line per policy: dollars after each recorded call."""
    courses = [(run.policy, _course(run)) for run in session.runs]
    bounds = [
        (name, each)
        for name, each in (("floor", session.floor), ("clairvoyant", session.clairvoyant))
        if each
    ]
    most = max([float(course[-1]) for _, course in courses if course] + [float(each) for _, each in bounds])
    marks = plot.ticks(most, wanted=3)
    top, width = marks[-1], max([len(course) for _, course in courses] + [2]) - 1
    shapes = [
        element("line", x1=0, x2=width, y1=y, y2=y, class_="grid")
        for y in (plot.height_of(mark, top) for mark in marks[1:])
    ]
    shapes += [_level(name, float(amount), top, width) for name, amount in bounds]
    shapes += [_line(name, course, top, chosen) for name, course in courses if course]
    words = [
        element("span", formatting.axis_dollars(mark), style=f"top:{100 - 100 * mark / top:.4g}%")
        for mark in marks[1:]
    ]
    drawing = plot.svg(width, shapes, label="Cumulative cost, one line for each policy")
    names = [
        element("span", name, class_=f"level {name}", style=f"top:{100 - 100 * float(amount) / top:.4g}%")
        for name, amount in bounds
    ]
    inside = element("div", drawing, names, class_="plot")
    ends = [(name, 100 - 100 * float(course[-1]) / top) for name, course in courses if course]
    return element(
        "div",
        element("div", words, class_="scale"),
        inside,
        element("div", [_end(*each, chosen) for each in spread(ends)], class_="ends"),
        class_="row middle so-far",
    )


def spread(ends: Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
    """Labels at these heights (percent from the top), moved apart so that none covers another."""
    found: list[tuple[str, float]] = []
    for name, at in sorted(ends, key=lambda each: each[1]):
        found.append((name, max(at, found[-1][1] + _LABEL) if found else at))
    limit = 100.0
    for at in range(len(found) - 1, -1, -1):
        name, height = found[at]
        found[at] = name, min(height, limit)
        limit = found[at][1] - _LABEL
    return found


def _end(name: str, at: float, chosen: str) -> Html:
    kind = "end on" if name == chosen else "end"
    return element("span", name, class_=kind, style=f"top:{at:.4g}%", data_policy=name)


def _bar(each: PolicyTotals, compared: Html, bounds: Sequence[tuple[str, Decimal]], most: Decimal) -> Html:
    parts: list[Html] = []
    x = 0.0
    for kind, name in KINDS.items():
        amount = each.by_kind.get(kind, Decimal(0))
        wide = _x(amount, most)
        said = element("title", f"{name}: {formatting.dollars(amount)}")
        parts.append(element("rect", said, x=f"{x:g}", width=f"{wide:g}", y=180, height=640, class_=kind))
        x += wide
    lines = [
        plot.upright(_x(amount, most), f"{name}: {formatting.dollars(amount)}", class_=f"bound {name}")
        for name, amount in bounds
    ]
    label = f"{each.policy}: {formatting.dollars(each.dollars)}"
    drawing = plot.svg(_WIDE, [part for part in parts if 'width="0"' not in part], lines, label=label)
    return element(
        "div",
        element("div", each.policy, class_="policy"),
        element("div", drawing, class_="bar"),
        element(
            "div",
            element("b", formatting.dollars(each.dollars)),
            " ",
            compared,
            class_="amount",
        ),
        class_="bar-row unfinished" if each.unfinished else "bar-row",
    )


def _compared(each: PolicyTotals, against: PolicyTotals, savings: Mapping[str, Saving]) -> Html:
    if each.unfinished:
        said = f"{formatting.count(each.unfinished, 'session')} did not finish under this policy"
        return element("span", "unfinished", class_="worse", title=said)
    if each.policy == against.policy:
        return element("span", "baseline", class_="soft")
    saved = savings.get(each.policy)
    if saved is None or not saved.of:
        return element("span", "not compared", class_="soft", title="no session that both can be compared on")
    is_same = saved.interval is not None and not saved.is_clear
    kind = "soft" if is_same else "better" if saved.dollars > 0 else "worse"
    said = formatting.signed(f"{each.policy} {state_saving(saved, against.policy)}")
    return element("span", formatting.signed(short_saving(saved)), class_=kind, title=said)


def _bound_names(bounds: Sequence[tuple[str, Decimal]], most: Decimal) -> Html:
    names = [_bound_name(name, amount, _x(amount, most) / _WIDE) for name, amount in bounds]
    return element("div", element("div"), element("div", names, class_="bound-names"), class_="bar-row names")


def _bound_name(name: str, amount: Decimal, at: float) -> Html:
    """The label of the floor is left of its line and that of the clairvoyant plan right of it, unless there
    is no space.
    """
    side = (
        "right"
        if name == "floor" and at < _NARROW
        else "left"
        if name == "clairvoyant" and at > 1 - _NARROW
        else ""
    )
    return element(
        "span",
        element("b", name),
        f" {formatting.dollars(amount)}",
        class_=f"bound-name {name} {side}".rstrip(),
        style=f"left:{100 * at:.4g}%",
    )


def _x(amount: Decimal, most: Decimal) -> float:
    return round(float(amount / most) * _WIDE, 2) if most else 0.0


def _course(run: ReplayRun) -> list[Decimal]:
    """Dollars after each recorded call. Extra calls count towards the recorded call before them."""
    found: list[Decimal] = []
    paid = Decimal(0)
    for call in sorted(run.calls, key=lambda call: call.at):
        paid += call.dollars
        if call.source == "main" or not found:
            found.append(paid)
        else:
            found[-1] = paid
    return found


def _line(name: str, course: Sequence[Decimal], top: float, chosen: str) -> Html:
    step = max(1, len(course) // _POINTS)
    at = [*range(0, len(course) - 1, step), len(course) - 1]
    points = [(x, plot.height_of(float(course[x]), top)) for x in at]
    said = f"{name}: {formatting.dollars(course[-1])}"
    kind = "course on" if name == chosen else "course"
    return plot.line(points, said, class_=kind, data_policy=name)


def _level(name: str, amount: float, top: float, width: int) -> Html:
    y = plot.height_of(amount, top)
    said = element("title", f"{name}: {formatting.dollars(Decimal(str(amount)))}")
    return element("line", said, x1=0, x2=width, y1=y, y2=y, class_=f"bound {name}")
