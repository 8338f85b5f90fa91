"""What a session has decided by price, and what the definitions of its tools cost (EC-1, EC-10)."""

from everturn.dashboard.layout import counted
from everturn.replay.page import formatting
from everturn.replay.page.markup import Html, element
from everturn.session.state_file import SessionState
from everturn.web_dashboard.pages.layout import Shell, panel

MAX_TOOLS = 30


def economy_panels(shell: Shell, kept: SessionState) -> list[Html]:
    """Nothing for sessions that everturn has not written: only it keeps these figures."""
    panels = (_decisions(shell, kept), _tools(kept))
    return [each for each in panels if each is not None]


def _decisions(shell: Shell, kept: SessionState) -> Html | None:
    if not kept.decisions:
        return None
    items = [
        element(
            "div",
            element("span", each.sentence),
            element("small", shell.moment(int(each.at.timestamp()))),
            class_="item",
        )
        for each in reversed(kept.decisions)
    ]
    return panel("Decided by price", items, note="the latest first")


def _tools(kept: SessionState) -> Html | None:
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
    return panel(
        "Definitions of tools", element("table", element("tbody", rows), class_="legend-table"), note=note
    )
