"""One session under one policy: context over time, events, and cache hits.

Three charts share their columns, one per call, thread after thread: the context in tokens, lanes with a tick
for everything that changed the context or broke the cache, and the share that was read from the cache.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from itertools import pairwise
from typing import Final

from everturn.replay.page import formatting, plot
from everturn.replay.page.markup import Html, element
from everturn.replay.page.session_comparison import prompt, written
from everturn.replay.runs import ReplayRun, SimulatedCall

# A pause in which a cache entry with the default TTL expires (api-facts 1.3).
PAUSE: Final = timedelta(minutes=5)
_X_LABELS: Final = 4


def figures(run: ReplayRun) -> Html:
    calls = run.calls
    if not calls:
        return element("p", "No call was made.", class_="soft")
    return element(
        "div",
        _context(calls),
        _lanes(calls),
        _hits(calls),
        _times(calls),
        element("div", class_="cursor", hidden=True),
        class_="plots",
        tabindex=0,
        role="group",
        aria_label="Calls of this session. Use the left and right arrow keys to move between calls.",
    )


def _context(calls: Sequence[SimulatedCall]) -> Html:
    marks = plot.ticks(max(max(prompt(call), call.context) for call in calls))
    top = marks[-1]
    layers = (
        ("read", [call.read for call in calls]),
        ("write", [written(call) for call in calls]),
        ("plain", [call.plain for call in calls]),
    )
    drawing = plot.svg(
        len(calls),
        [element("line", x1=0, x2=len(calls), y1=y, y2=y, class_="grid") for y in _heights(marks[1:], top)],
        plot.stacked(layers, top),
        _threads(calls),
        _pauses(calls),
        [plot.upright(x, "", class_="boundary") for x, call in enumerate(calls) if call.source == "compact"],
        label=(
            f"Context over {formatting.count(len(calls), 'call')}, at most {formatting.tokens(_peak(calls))}"
        ),
    )
    words = [
        element("span", formatting.tokens(round(mark)), style=f"top:{100 - 100 * mark / top:.4g}%")
        for mark in marks[1:]
    ]
    return _row("tall", element("div", words, class_="scale"), drawing)


def _lanes(calls: Sequence[SimulatedCall]) -> list[Html]:
    lanes: tuple[tuple[str, str, Callable[[SimulatedCall], str]], ...] = (
        ("Compacted", "compacted", _compaction),
        ("Cleared", "cleared", _clearing),
        ("Broke", "broke", lambda call: call.broke and f"The cache broke: {call.broke}"),
        ("Refetches", "refetch", lambda call: "; ".join(f"{f.kind}: {f.what}" for f in call.refetches)),
    )
    return [_lane(calls, *lane) for lane in lanes]


def _lane(calls: Sequence[SimulatedCall], name: str, kind: str, said: Callable[[SimulatedCall], str]) -> Html:
    found = [(x, call.number, words) for x, call in enumerate(calls) if (words := said(call))]
    marks = [plot.upright(x + 0.5, f"Call {number}: {words}", class_=kind) for x, number, words in found]
    label = f"{name}: {formatting.count(len(found), 'call')}"
    number = element("b", f"{len(found):,}") if found else element("span", "none", class_="soft")
    return _row(
        "lane", element("div", name, " ", number, class_="name"), plot.svg(len(calls), marks, label=label)
    )


def _hits(calls: Sequence[SimulatedCall]) -> Html:
    def part(of: Callable[[SimulatedCall], int]) -> list[float]:
        return [of(call) / max(1, prompt(call)) for call in calls]

    layers = (
        ("read", part(lambda call: call.read)),
        ("write", part(written)),
        ("plain", part(lambda call: call.plain)),
    )
    hit = formatting.share(sum(call.read for call in calls), sum(prompt(call) for call in calls))
    drawing = plot.svg(len(calls), plot.stacked(layers, 1), label=f"Share read from the cache: {hit}")
    return _row("strip", element("div", "Hits ", element("b", hit), class_="name"), drawing)


def _times(calls: Sequence[SimulatedCall]) -> Html:
    at = sorted({round(len(calls) * part / _X_LABELS) for part in range(_X_LABELS)})
    words = [
        element(
            "span",
            element("b", f"call {calls[x].number}"),
            formatting.moment(calls[x].at),
            style=f"left:{100 * x / len(calls):.4g}%",
        )
        for x in at
        if x < len(calls)
    ]
    return _row("times", element("div"), element("div", words))


def _row(kind: str, left: Html, right: Html) -> Html:
    return element("div", left, element("div", right, class_="plot"), class_=f"row {kind}")


def _heights(marks: Sequence[float], top: float) -> Iterator[int]:
    return (plot.height_of(mark, top) for mark in marks)


def _threads(calls: Sequence[SimulatedCall]) -> list[Html]:
    """Where one conversation ends and that of a sub-agent begins."""
    starts = [x for x, (a, b) in enumerate(pairwise(calls), start=1) if a.thread != b.thread]
    return [plot.upright(x, f"Sub-agent {calls[x].thread}", class_="thread") for x in starts]


def _pauses(calls: Sequence[SimulatedCall]) -> list[Html]:
    gaps = [(x, b.at - a.at) for x, (a, b) in enumerate(pairwise(calls), start=1) if a.thread == b.thread]
    return [
        plot.upright(x, f"A pause of {formatting.duration(gap)}", class_="pause")
        for x, gap in gaps
        if gap > PAUSE
    ]


def _compaction(call: SimulatedCall) -> str:
    return f"Compacted. {call.why}" if call.source == "compact" else ""


def _clearing(call: SimulatedCall) -> str:
    return f"{formatting.count(call.cleared, 'result')} cleared. {call.why}" if call.cleared else ""


def _peak(calls: Sequence[SimulatedCall]) -> int:
    return max(call.context for call in calls)
