"""The whole page as one file that makes no network requests.

Style and script are inline. A content security policy forbids everything else, so that even a mistake here
could not make a browser load something.
"""

from collections.abc import Sequence
from importlib.resources import files
from typing import Final

from everturn.replay.compare import ComparisonTable
from everturn.replay.page import formatting, parts
from everturn.replay.page.markup import Html, element, raw
from everturn.replay.page.session_comparison import (
    SessionComparison,
    baseline,
    by_cost,
    how_many_are_drawn,
    sum_policies,
)

_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
# An inline icon, so that the browser does not request one.
_ICON: Final = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 8 8'%3E"
    "%3Crect width='8' height='8' rx='2' fill='%233c9d8b'/%3E%3C/svg%3E"
)


def render_page(
    sessions: Sequence[SessionComparison],
    compared: ComparisonTable,
    *,
    unreadable: Sequence[tuple[str, str]] = (),
) -> str:
    """The page for these sessions, with the figures of the table; `unreadable` are the files without a
    session, as (path, why).
    """
    told = [each for each in sessions if any(run.totals.calls for run in each.runs)]
    body = _told(by_cost(told), compared, unreadable) if told else _nothing(compared, unreadable)
    return "<!doctype html>\n" + element("html", _head(), element("body", body), lang="en") + "\n"


def wrap_page(title: str, body: Html) -> str:
    """Another page in the same style, with the same limits."""
    return "<!doctype html>\n" + element("html", _head(title), element("body", body), lang="en") + "\n"


def _told(
    sessions: Sequence[SessionComparison], compared: ComparisonTable, unreadable: Sequence[tuple[str, str]]
) -> Html:
    drawn = how_many_are_drawn(sessions)
    chosen = baseline(sum_policies(sessions)).policy
    return element(
        "main",
        parts.headline(sessions, compared),
        parts.policies(sessions, compared),
        parts.session_table(sessions, compared, drawn),
        [parts.session_section(each, number, chosen) for number, each in enumerate(sessions[:drawn])],
        _unread(unreadable),
        element("footer", "Made by everturn. This file is self-contained and makes no network requests."),
        element("noscript", element("style", raw("[hidden] { display: block !important; }"))),
        element("script", _own("page.js")),
    )


def _nothing(compared: ComparisonTable, unreadable: Sequence[tuple[str, str]]) -> Html:
    said = "Nothing to replay: no session with a call was found."
    return element(
        "main",
        element("h1", "No calls"),
        element("p", said),
        parts.explanations(compared),
        _unread(unreadable),
    )


def _unread(unreadable: Sequence[tuple[str, str]]) -> Html | str:
    if not unreadable:
        return ""
    rows = [
        element("tr", element("td", path), element("td", why, class_="words")) for path, why in unreadable
    ]
    title = element("h2", f"{formatting.count(len(unreadable), 'file')} could not be read")
    return element("section", title, element("div", element("table", rows), class_="scroll tall-table"))


def _head(title: str = "everturn replay") -> Html:
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        raw(f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}"/>'),
        raw(f'<link rel="icon" href="{_ICON}"/>'),
        element("title", title),
        element("style", _own("style.css")),
    )


def _own(name: str) -> Html:
    return raw(files("everturn.replay.page").joinpath(name).read_text(encoding="utf-8"))
