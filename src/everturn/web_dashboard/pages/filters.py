"""The filters of overview and list: a form that works without a script, and addresses that can be kept."""

from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

import msgspec

from everturn.replay.page.markup import Html, element
from everturn.web_dashboard.pages.layout import void
from everturn.web_dashboard.queries import Grouping


class Choices(msgspec.Struct, frozen=True):
    """The values that a filter can take."""

    names: Mapping[Grouping, Sequence[str]]


def address(path: str, query: Mapping[str, str], **changed: str) -> str:
    """A link to a page with these filters; empty ones are left out."""
    values = {name: value for name, value in {**query, **changed}.items() if value}
    return f"{path}?{urlencode(values)}" if values else path


def segmented(
    path: str,
    query: Mapping[str, str],
    name: str,
    options: Sequence[tuple[str, str]],
    *,
    chosen: str | None = None,
) -> Html:
    """A choice of a few as links. Without `chosen`, the first is the default and is not in the address."""
    default = options[0][0] if chosen is None else None
    chosen = query.get(name) or options[0][0] if chosen is None else chosen
    links = [
        element(
            "a",
            words,
            href=address(path, query, **{name: "" if value == default else value, "page": ""}),
            aria_current="true" if value == chosen else None,
        )
        for value, words in options
    ]
    return element("div", links, class_="segmented", role="group", aria_label=name.capitalize())


def select(name: str, label: str, options: Sequence[str], chosen: str) -> Html:
    if len(options) < 2 and not chosen:
        return element("span")
    listed = [element("option", f"All {label}s", value="")]
    listed += [
        element("option", _short(each), value=each, selected=each == chosen) for each in options if each
    ]
    return element("select", listed, name_=name, aria_label=label.capitalize())


def form(path: str, query: Mapping[str, str], choices: Choices, *, with_text: bool) -> Html:
    """Filters that are not shown as fields are kept as hidden ones."""
    shown = ("q", "project", "model", "agent", "since", "until", "page")
    kept = [void("input", type="hidden", name_=n, value=v) for n, v in query.items() if n not in shown and v]
    text = void(
        "input",
        type="search",
        name_="q",
        value=query.get("q", ""),
        placeholder="Search titles, projects, ids",
        aria_label="Search sessions",
        data_search=True,
    )
    days = [
        element(
            "label",
            element("span", words),
            void("input", type="date", name_=name, value=query.get(name, "")),
            class_="day",
        )
        for name, words in (("since", "From"), ("until", "To"))
    ]
    selects = [
        select(name, name, choices.names[name], query.get(name, "")) for name in ("project", "model", "agent")
    ]
    return element(
        "form",
        kept,
        text if with_text else "",
        selects,
        element("span", days, class_="days"),
        element("button", "Apply", type="submit", class_="apply"),
        method="get",
        action=path,
        class_="filters",
        role="search",
    )


def _short(name: str) -> str:
    """The end of a long path says more than its beginning."""
    return name if len(name) <= 42 else "…" + name[-41:]
