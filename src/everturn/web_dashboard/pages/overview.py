"""The overview: where the money goes, over time and by group, and what could have been avoided (DB-2)."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

import msgspec

from everturn.replay.page import formatting
from everturn.replay.page.markup import Html, element
from everturn.replay.page.plot import swatches
from everturn.web_dashboard import figures
from everturn.web_dashboard.avoidable import AvoidableCost
from everturn.web_dashboard.pages.filters import Choices, address, form, segmented
from everturn.web_dashboard.pages.layout import Shell, cost, dollars, empty, panel, render, tile, tiles
from everturn.web_dashboard.pages.sessions import countdown, session_link, short_project
from everturn.web_dashboard.periods import Period
from everturn.web_dashboard.queries import Grouping, GroupRow, IndexedSession, PeriodRow, Sums
from everturn.web_dashboard.values import NANO

# CSS class, name, and the amount of a period.
Kind = tuple[str, str, Callable[[Sums], int]]
_COSTS: tuple[Kind, ...] = (
    ("read", "Cache reads", lambda sums: sums.read_nanos),
    ("write", "Cache writes", lambda sums: sums.write_nanos),
    ("plain", "Uncached input", lambda sums: sums.plain_nanos),
    ("output", "Output", lambda sums: sums.output_nanos),
)
_TOKENS: tuple[Kind, ...] = (
    ("read", "Cache reads", lambda sums: sums.read),
    ("write", "Cache writes", lambda sums: sums.written),
    ("plain", "Uncached input", lambda sums: sums.plain),
    ("output", "Output", lambda sums: sums.output),
)
RANGES = (("", "All time"), ("7", "7 days"), ("30", "30 days"), ("90", "90 days"))
_PERIODS = (("day", "Day"), ("week", "Week"), ("month", "Month"))
MAX_AVOIDABLE = 6


class Overview(msgspec.Struct, frozen=True):
    """Everything on the page. `before` are the sums of an equally long time before; None for all time."""

    sums: Sums
    before: Sums | None
    sessions: int
    period: Period
    periods: Sequence[PeriodRow]
    groups: Mapping[Grouping, Sequence[GroupRow]]
    avoidable: Sequence[AvoidableCost]
    biggest: Sequence[IndexedSession]
    running: Sequence[IndexedSession]
    # Calls that the twin answered; the sums leave them out.
    practice: int = 0


def overview_page(shell: Shell, data: Overview, query: Mapping[str, str], choices: Choices) -> str:
    head = element(
        "div",
        element("h1", "Overview"),
        element(
            "div",
            segmented("/", query, "range", RANGES),
            segmented("/", query, "by", _PERIODS, chosen=data.period),
            class_="controls",
        ),
        class_="page-head",
    )
    return render(
        shell, "Overview", head, form("/", query, choices, with_text=False), _body(shell, data, query)
    )


def _body(shell: Shell, data: Overview, query: Mapping[str, str]) -> Html:
    if not data.sums.calls:
        return element(
            "div", _running(shell, data.running), _nothing(shell, data, query), data_live="overview"
        )
    return element(
        "div",
        _tiles(data),
        element("div", _running(shell, data.running), data_live="running"),
        element(
            "div",
            element(
                "div",
                _chart(data, query),
                element("div", _group("project", data), _group("model", data), class_="columns even"),
            ),
            element("div", _avoidable(data), _group("agent", data)),
            class_="columns lead-columns",
        ),
        _biggest(shell, data.biggest, query),
    )


def _nothing(shell: Shell, data: Overview, query: Mapping[str, str]) -> Html:
    if any(query.values()):
        return empty("No calls match these filters", element("a", "Show everything", href="/"))
    if not shell.progress.is_done:
        return empty("Reading your sessions", "The page fills while they are read.")
    if shell.sessions:
        link = element("a", formatting.count(shell.sessions, "session"), href="/sessions")
        why = "Practice with the twin costs nothing" if data.practice else "These files report no usage"
        return empty("No costs", f"{why}. See the ", link, ".")
    return empty(
        "No sessions found",
        "Start with a file or folder: ",
        element("code", "everturn dashboard PATH"),
        ". Without one, the places of Claude Code, Codex, Gemini CLI and everturn are searched.",
    )


def _tiles(data: Overview) -> Html:
    sums = data.sums
    lost = sum(each.nanos for each in data.avoidable)
    unpriced = f"{formatting.count(sums.unpriced, 'call')} without a known price; " if sums.unpriced else ""
    practice = f"; {formatting.count(data.practice, 'practice call')} left out" if data.practice else ""
    return tiles(
        [
            tile("Cost", cost(sums.nanos, sums.unpriced), f"{unpriced}at list price{practice}", _trend(data)),
            tile("Cache breaks", dollars(lost), f"{_share(lost, sums.nanos)} of the cost, estimated"),
            tile(
                "Hit rate",
                formatting.share(sums.read, sums.prompt),
                "of the input was read from the cache",
            ),
            tile(
                "Tokens",
                formatting.tokens(sums.prompt + sums.output),
                f"{formatting.tokens(sums.output)} of them output",
            ),
            tile("Sessions", f"{data.sessions:,}", formatting.count(sums.calls, "call")),
        ],
        data_live="tiles",
    )


def _trend(data: Overview) -> Html | str:
    if data.before is None or not data.before.nanos:
        return ""
    change = (data.sums.nanos - data.before.nanos) / data.before.nanos
    kind = "worse" if change > 0 else "better"
    said = f"{change:+.0%}".replace("-", "−")
    return element("span", " · ", element("b", said, class_=kind), " on the time before")


def _share(part: int, whole: int) -> str:
    return formatting.share(part, whole)


def _chart(data: Overview, query: Mapping[str, str]) -> Html:
    show = "tokens" if query.get("show") == "tokens" else "dollars"
    kinds = _TOKENS if show == "tokens" else _COSTS
    scale = 1 if show == "tokens" else NANO
    layers = [
        figures.Layer(kind, name, [amount(row.sums) / scale for row in data.periods])
        for kind, name, amount in kinds
    ]
    with_year = data.periods[0].start.year != data.periods[-1].start.year
    names = [period_name(row.start, data.period, with_year=with_year) for row in data.periods]
    labels = [name.removeprefix("Week of ") for name in names]
    unit = _axis_tokens if show == "tokens" else formatting.axis_dollars
    rates = [row.sums.read / row.sums.prompt if row.sums.prompt else None for row in data.periods]
    chart = figures.columns(
        layers,
        labels,
        [_said(name, row.sums) for name, row in zip(names, data.periods, strict=True)],
        label=f"{show.capitalize()} by {data.period}",
        unit=unit,
    )
    return panel(
        f"{'Tokens' if show == 'tokens' else 'Cost'} by {data.period}",
        swatches((kind, name) for kind, name, _ in kinds),
        chart,
        element("h3", "Hit rate", class_="quiet"),
        figures.line(rates, label="Share of the input that was read from the cache", name="hit rate"),
        _table(data, names),
        note=segmented("/", query, "show", (("dollars", "Dollars"), ("tokens", "Tokens"))),
        class_="grow",
        data_live="chart",
    )


def _axis_tokens(value: float) -> str:
    return formatting.tokens(round(value))


def _said(label: str, sums: Sums) -> list[str]:
    if not sums.calls:
        return [label, "no calls"]
    return [
        label,
        f"{cost(sums.nanos, sums.unpriced)} · {formatting.count(sums.calls, 'call')}",
        f"{formatting.tokens(sums.prompt)} input, {formatting.share(sums.read, sums.prompt)} from the cache",
    ]


def period_name(start: datetime, period: Period, *, with_year: bool = False) -> str:
    """Months always have their year; days and weeks where two years are shown."""
    if period == "month":
        return f"{start:%b %Y}"
    day = f"{start.day} {start:%b}" + (f" {start.year}" if with_year else "")
    return day if period == "day" else f"Week of {day}"


def _table(data: Overview, labels: Sequence[str]) -> Html:
    heads = (data.period.capitalize(), "Cost", "Calls", "Input", "Output", "Hit rate")
    rows = [
        element(
            "tr",
            element("th", label, scope="row"),
            element("td", cost(row.sums.nanos, row.sums.unpriced)),
            element("td", f"{row.sums.calls:,}"),
            element("td", formatting.tokens(row.sums.prompt)),
            element("td", formatting.tokens(row.sums.output)),
            element("td", formatting.share(row.sums.read, row.sums.prompt)),
        )
        for label, row in zip(reversed(labels), reversed(data.periods), strict=True)
        if row.sums.calls
    ]
    table = element(
        "table",
        element("thead", element("tr", [element("th", head, scope="col") for head in heads])),
        element("tbody", rows),
    )
    return element(
        "details",
        element("summary", "As a table"),
        element("div", table, class_="scroll tall-table", tabindex=0, role="region", aria_label="Periods"),
    )


def _avoidable(data: Overview) -> Html:
    found = [each for each in data.avoidable if each.nanos][:MAX_AVOIDABLE]
    if not found:
        none = element("p", "No cache break was found.", class_="soft")
        return panel("Avoidable cost", none, data_live="avoidable")
    most = max(each.nanos for each in found)
    by_policy = [_cause(each, data.sums, most) for each in found if each.remedy.policy]
    others = [_cause(each, data.sums, most) for each in found if not each.remedy.policy]
    note = "An estimate: writing again minus reading. What a remedy itself costs is not subtracted."
    return panel(
        "Avoidable cost",
        element("ul", by_policy, class_="causes") if by_policy else "",
        [element("h3", "Not avoidable by a policy", class_="quiet"), element("ul", others, class_="causes")]
        if others
        else "",
        element("p", note, class_="soft fine"),
        data_live="avoidable",
    )


def _cause(each: AvoidableCost, sums: Sums, most: int) -> Html:
    policy = each.remedy.policy
    words = f" of {dollars(sums.nanos)} were {each.remedy.cause}"
    size = f"{formatting.count(each.count, 'break')}, {formatting.tokens(each.lost)} tokens. "
    query = {"policies": f"recorded,claude-code,{policy}"}
    return element(
        "li",
        element("p", element("b", dollars(each.nanos), class_="number"), words),
        figures.meter(each.nanos / most, "meter-fill broke-fill"),
        element("p", size, each.remedy.help, class_="soft"),
        element("a", f"Try {policy}", href=address("/what-if", query), class_="small-link") if policy else "",
    )


def _running(shell: Shell, found: Sequence[IndexedSession]) -> Html | str:
    if not found:
        return ""
    rows = [
        element(
            "li",
            element("span", class_="live-dot", aria_hidden="true"),
            session_link(each),
            element("span", dollars(each.nanos), class_="number"),
            element("span", f"{formatting.tokens(each.context)} in context", class_="soft"),
            countdown(shell, each),
        )
        for each in found
    ]
    return panel("Running", element("ul", rows, class_="running"))


def _group(name: Grouping, data: Overview) -> Html:
    rows = data.groups[name]
    most = max((row.sums.nanos for row in rows), default=0)
    listed = [
        element(
            "li",
            element(
                "a", short_project(row.name) if name == "project" else row.name or "unknown",
                href=address("/sessions", {name: row.name, "sort": "cost"}), title=row.name,
            ),
            element("span", cost(row.sums.nanos, row.sums.unpriced), class_="number"),
            figures.meter(row.sums.nanos / most if most else 0),
            element(
                "small",
                f"{formatting.count(row.sessions, 'session')}, "
                f"{formatting.share(row.sums.read, row.sums.prompt)} from the cache",
            ),
        )
        for row in rows
    ]  # fmt: skip
    return panel(f"By {name}", element("ol", listed, class_="ranking"), data_live=f"by-{name}")


def _biggest(shell: Shell, found: Sequence[IndexedSession], query: Mapping[str, str]) -> Html:
    kept = {name: query.get(name, "") for name in ("project", "model", "agent", "since", "until")}
    more = element("a", "All sessions", href=address("/sessions", {**kept, "sort": "cost"}))
    rows = [
        element(
            "tr",
            element("td", session_link(each)),
            element("td", shell.moment(each.ended), class_="left soft"),
            element(
                "td",
                figures.spark(
                    each.spark, each.window, label=f"context, at most {formatting.tokens(each.peak)}"
                ),
            ),
            element("td", formatting.share(each.read, each.prompt)),
            element("td", cost(each.nanos, each.unpriced), class_="number"),
        )
        for each in found
    ]
    heads = ("Session", "Last used", "Context", "Hit rate", "Cost")
    head = element("thead", element("tr", [element("th", each, scope="col") for each in heads]))
    table = element("table", head, element("tbody", rows), class_="session-table")
    return panel(
        "Biggest sessions",
        element("div", table, class_="scroll", tabindex=0, role="region", aria_label="Biggest sessions"),
        note=more,
        data_live="biggest",
    )
