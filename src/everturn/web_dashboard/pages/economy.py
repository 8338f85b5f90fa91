"""What a session has decided by price, and what the definitions of its tools cost (EC-1, EC-10)."""

from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal

from everturn.dashboard.audit import PURPOSES
from everturn.dashboard.layout import counted
from everturn.decide.economy.head import HeadTool
from everturn.measure.money import format_dollars
from everturn.measure.pricing import price_reads
from everturn.replay.page import formatting
from everturn.replay.page.markup import Html, element
from everturn.session.recorded import find_recorded_model
from everturn.session.state_file import SessionState
from everturn.web_dashboard.pages.layout import Shell, panel
from everturn.web_dashboard.queries import IndexedSession

MAX_TOOLS = 30


def economy_panels(shell: Shell, kept: SessionState, row: IndexedSession) -> list[Html]:
    """Nothing for sessions that everturn has not written: only it keeps these figures."""
    panels = (_asides(kept, row), _decisions(shell, kept), _tools(kept, row))
    return [each for each in panels if each is not None]


def _decisions(shell: Shell, kept: SessionState) -> Html | None:
    if not kept.decisions:
        return None
    items = [
        element(
            "div",
            element("span", class_=f"tag t-{each.kind}"),
            element("span", each.sentence),
            element("small", shell.moment(int(each.at.timestamp()))),
            class_="item",
        )
        for each in reversed(kept.decisions)
    ]
    return panel("Decided by price", items, note="the latest first")


def _asides(kept: SessionState, row: IndexedSession) -> Html | None:
    """Nobody paid for practice."""
    if not kept.asides or row.practice:
        return None
    rows = [
        element(
            "tr",
            element("th", counted(spent.calls, PURPOSES[purpose]), scope="row"),
            element("td", "no price" if spent.unpriced == spent.calls else format_dollars(spent.dollars)),
        )
        for purpose, spent in kept.asides.items()
    ]
    return panel(
        "Calls of everturn",
        element("table", element("tbody", rows), class_="legend-table"),
        note="beside the conversation, not included in its cost",
    )


def _tools(kept: SessionState, row: IndexedSession) -> Html | None:
    if not kept.head:
        return None
    unused = [tool for tool in kept.head if tool.is_unused]
    ordered = sorted(kept.head, key=lambda tool: (not tool.is_unused, -tool.tokens))
    rows = [
        element(
            "tr",
            element("th", f"{tool.name} (deferred)" if tool.is_deferred else tool.name, scope="row"),
            element("td", formatting.tokens(tool.tokens)),
            element("td", f"{tool.calls:,}" if tool.calls else "never called", class_="soft"),
        )
        for tool in ordered[:MAX_TOOLS]
    ]
    cost = formatting.tokens(sum(tool.tokens for tool in unused))
    note = f"{counted(len(unused), 'tool')} never called: {cost} tokens in every prompt" if unused else ""
    if unused and (dollars := _price_unused(unused, row)) is not None:
        note += f", {format_dollars(dollars)} to read them {counted(row.calls, 'time')}"
    return panel(
        "Definitions of tools", element("table", element("tbody", rows), class_="legend-table"), note=note
    )


def _price_unused(unused: Sequence[HeadTool], row: IndexedSession) -> Decimal | None:
    """At the prices of the session's last model and day; an index has no others."""
    model = find_recorded_model(row.model)
    if model is None or row.ended is None or not row.calls:
        return None
    day = datetime.fromtimestamp(row.ended, UTC).date()
    return price_reads(sum(tool.tokens for tool in unused), [(model, day)] * row.calls)
