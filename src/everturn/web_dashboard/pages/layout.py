"""The frame of every page: head, navigation, progress of the index, and the main part.

All links, styles and scripts are of this server, and the content security policy (`security.py`) allows
nothing else.
"""

from collections.abc import Iterable
from datetime import datetime, tzinfo
from typing import Final

import msgspec

from everturn.replay.page import formatting
from everturn.replay.page.markup import Attribute, Child, Html, element, raw
from everturn.web_dashboard.indexer import Progress
from everturn.web_dashboard.values import to_dollars

NAVIGATION: Final = (
    ("/", "Overview", "M2 13V8h3v5zM6.5 13V3h3v10zM11 13V6h3v7z"),
    ("/sessions", "Sessions", "M2 3.5h12v2H2zM2 7h12v2H2zM2 10.5h12v2H2z"),
    (
        "/recall",
        "Recall",
        "M7 2a5 5 0 1 0 3 9l3.3 3.3 1-1L11 10a5 5 0 0 0-4-8zm0 1.6a3.4 3.4 0 1 1 0 6.8 3.4 3.4 0 0 1 0-6.8z",
    ),
    (
        "/what-if",
        "What if",
        "M4 2a2 2 0 0 0-.8 3.8v4.4a2 2 0 1 0 1.6 0V9h4.7A2.5 2.5 0 0 0 12 6.5v-.7a2 2 0 1 0-1.6 0v.7"
        "a.9.9 0 0 1-.9.9H4.8V5.8A2 2 0 0 0 4 2z",
    ),
)


class Shell(msgspec.Struct, frozen=True):
    """What every page shows around its content. `zone`: times are those of the user; None is the system's."""

    active: str
    token: str
    progress: Progress
    sessions: int
    zone: tzinfo | None
    now: int
    notes: tuple[str, ...] = ()
    home: str = ""

    def place(self, path: str) -> str:
        """A path as people write it: what is below their home folder begins with ~."""
        below = path.removeprefix(f"{self.home.rstrip('/')}/")
        return f"~/{below}" if self.home.rstrip("/") and below != path else path

    def moment(self, at: int | None) -> str:
        """A time in the user's zone; the year only where it is another one."""
        if at is None:
            return "no date"
        local, today = datetime.fromtimestamp(at, self.zone), datetime.fromtimestamp(self.now, self.zone)
        year = "" if local.year == today.year else f" {local.year}"
        return f"{local.day} {local:%b}{year} {local:%H:%M}"


def render(shell: Shell, title: str, *content: Child, wide: bool = True) -> str:
    page = element(
        "html",
        _head(title, shell.token),
        element(
            "body",
            element("a", "Skip to the content", href="#main", class_="skip"),
            _sidebar(shell),
            element("main", _notes(shell), *content, id="main", class_="wide" if wide else "narrow"),
            element("dialog", id="dialog", aria_labelledby="dialog-title"),
            element("div", class_="toast", role="status", aria_live="polite", hidden=True),
        ),
        lang="en",
    )
    return f"<!doctype html>\n{page}\n"


def void(name: str, **attributes: Attribute) -> Html:
    """An element that has no content and no end tag."""
    return raw(element(name, **attributes).removesuffix(f"</{name}>"))


def dollars(nanos: int) -> str:
    return formatting.dollars(to_dollars(nanos))


def cost(nanos: int, unpriced: int) -> str:
    """What calls cost; calls without a known price are not shown as free."""
    return "no price" if unpriced and not nanos else dollars(nanos)


def tile(name: str, value: str, *said: Child) -> Html:
    return element("div", element("dt", name), element("dd", value, element("small", *said)), class_="tile")


def tiles(each: Iterable[Html], **attributes: Attribute) -> Html:
    return element("dl", each, class_="tiles", **attributes)


def panel(title: str, *content: Child, note: Child = "", **attributes: Attribute) -> Html:
    head = element("div", element("h2", title), element("div", note, class_="soft"), class_="panel-head")
    return element("section", head, *content, **attributes)


def empty(title: str, *said: Child, is_page: bool = False) -> Html:
    """What stands where there is nothing to show. `is_page`: it is the whole page."""
    heading = element("h1" if is_page else "h2", title)
    return element("div", heading, element("p", *said, class_="soft"), class_="empty")


def _head(title: str, token: str) -> Html:
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name_="color-scheme", content="light dark"),
        element("meta", name_="action-token", content=token),
        element("title", f"{title} · everturn"),
        void("link", rel="icon", href="/static/icon.svg"),
        void("link", rel="stylesheet", href="/static/report.css"),
        void("link", rel="stylesheet", href="/static/dashboard.css"),
        element("script", src="/static/dashboard.js", defer=True),
        element("script", src="/static/report.js", defer=True),
    )


def _sidebar(shell: Shell) -> Html:
    links = [
        element(
            "a",
            _icon(drawn),
            element("span", name),
            href=path,
            aria_current="page" if path == shell.active else None,
        )
        for path, name, drawn in NAVIGATION
    ]
    return element(
        "header",
        element(
            "a", element("span", class_="mark", aria_hidden="true"), "everturn", href="/", class_="brand"
        ),
        element("nav", links, aria_label="Pages"),
        _progress(shell),
        class_="sidebar",
    )


def _icon(drawn: str) -> Html:
    return element("svg", element("path", d=drawn), viewBox="0 0 16 16", aria_hidden="true", class_="icon")


def _progress(shell: Shell) -> Html:
    progress = shell.progress
    busy = not progress.is_done
    said = (
        f"Reading sessions: {progress.done:,} of {progress.total:,}"
        if progress.looked
        else "Looking for sessions"
    )
    words = said if busy else f"{formatting.count(shell.sessions, 'session')}, up to date"
    bar = element("progress", value=progress.done, max=max(1, progress.total), aria_label="Reading sessions")
    return element(
        "div",
        element("span", words, class_="progress-words"),
        bar if busy else "",
        class_="index-progress",
        id="index-progress",
        data_live="progress",
        role="status",
    )


def _notes(shell: Shell) -> Html | str:
    if not shell.notes or shell.active != NAVIGATION[0][0]:
        return ""
    return element("div", [element("p", note) for note in shell.notes], class_="notice")
