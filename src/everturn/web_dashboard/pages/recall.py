"""Recall: full-text search over all sessions, each hit in its context (DB-6)."""

import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import quote

from everturn.replay.page import formatting
from everturn.replay.page.markup import Html, element
from everturn.web_dashboard.pages.layout import Shell, empty, render, void
from everturn.web_dashboard.pages.sessions import session_link
from everturn.web_dashboard.queries import TextHit

# Characters around the first match.
_BEFORE: Final = 120
_AFTER: Final = 320
# Passages of a session that are shown at once.
_SHOWN: Final = 3


def recall_page(shell: Shell, words: str, hits: Sequence[TextHit], remark: str) -> str:
    head = element("div", element("h1", "Recall"), class_="page-head")
    search = element(
        "form",
        void(
            "input",
            type="search",
            name_="q",
            value=words,
            placeholder="Search everything that was said, read and run",
            aria_label="Search all sessions",
            data_search=True,
            autofocus=not words,
        ),
        element("button", "Search", type="submit", class_="button"),
        method="get",
        action="/recall",
        class_="filters big-search",
        role="search",
    )
    return render(
        shell, f"{words} · Recall" if words else "Recall", head, search, _found(shell, words, hits, remark)
    )


def _found(shell: Shell, words: str, hits: Sequence[TextHit], remark: str) -> Html:
    if not words:
        said = "Also what was cleared or summarized. Put a phrase in double quotes."
        return element("section", empty("Search all sessions", said))
    if not hits:
        said = "Only complete words are found; endings do not matter."
        return element("section", empty("Nothing found", remark or said))
    by_session: dict[str, list[TextHit]] = {}
    for each in hits:
        by_session.setdefault(each.session.id, []).append(each)
    count = formatting.count(len(by_session), "session")
    note = f"{formatting.count(len(hits), 'passage')} in {count}, best first. {remark}".rstrip()
    return element(
        "div",
        element("p", note, class_="soft", role="status"),
        [_session(shell, found, words) for found in by_session.values()],
    )


def _session(shell: Shell, found: Sequence[TextHit], words: str) -> Html:
    first = found[0].session
    shown = [_hit(shell, each, words) for each in found[:_SHOWN]]
    rest = [_hit(shell, each, words) for each in found[_SHOWN:]]
    more = element("details", element("summary", f"{len(rest)} more"), element("ol", rest, class_="hits"))
    return element(
        "section",
        element("div", session_link(first), element("span", shell.moment(first.ended)), class_="panel-head"),
        element("ol", shown, class_="hits"),
        more if rest else "",
    )


def _hit(shell: Shell, each: TextHit, words: str) -> Html:
    where = f"/session/{each.session.id}/record/{quote(each.uuid, safe='')}"
    source = f"{each.source} {each.tool}".strip()
    return element(
        "li",
        element("p", element("a", "In context", href=where), f" · {source} · {shell.moment(each.at)}"),
        element("pre", marked(each.text, words)),
        class_="hit",
    )


def marked(text: str, words: str) -> list[Html | str]:
    """The part of a passage around its first match, with the words of the query marked."""
    terms = [re.escape(term) for term in re.findall(r"\w+", words)]
    pattern = re.compile(rf"\b(?:{'|'.join(terms)})\w*", re.IGNORECASE) if terms else re.compile(r"(?!)")
    first = pattern.search(text)
    at = first.start() if first else 0
    start, end = max(0, at - _BEFORE), min(len(text), at + _AFTER)
    part = text[start:end]
    shown: list[Html | str] = ["… "] if start else []
    here = 0
    for found in pattern.finditer(part):
        shown += [part[here : found.start()], element("mark", found[0])]
        here = found.end()
    return [*shown, part[here:], " …" if end < len(text) else ""]
