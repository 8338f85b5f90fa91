"""The list of sessions: searched, sorted and filtered, each state with its own address (DB-3)."""

from collections.abc import Mapping, Sequence

from everturn.catalog.names import ID_SHOWN
from everturn.replay.page import formatting
from everturn.replay.page.markup import Html, element
from everturn.web_dashboard import figures
from everturn.web_dashboard.pages.filters import Choices, address, form
from everturn.web_dashboard.pages.layout import Shell, cost, dollars, empty, panel, render
from everturn.web_dashboard.queries import PAGE_SIZE, IndexedSession, Sort

_COLUMNS: tuple[tuple[str, Sort | None], ...] = (
    ("Session", "title"),
    ("Last used", "date"),
    ("Model", None),
    ("Context", "context"),
    ("Cost", "cost"),
    ("Calls", "calls"),
    ("Hit rate", None),
    ("Breaks", "breaks"),
    ("Compacted", "compactions"),
)


# A call later than this in the future has a wrong date.
CLOCK_SKEW_SECONDS = 60


def sessions_page(
    shell: Shell,
    rows: Sequence[IndexedSession],
    count: int,
    query: Mapping[str, str],
    choices: Choices,
    unreadable: Sequence[tuple[str, str]],
    *,
    sort: Sort,
    page: int,
) -> str:
    head = element(
        "div",
        element("h1", "Sessions"),
        element("p", formatting.count(count, "session"), class_="soft", data_live="count"),
        class_="page-head",
    )
    return render(
        shell,
        "Sessions",
        head,
        form("/sessions", query, choices, with_text=True),
        _table(shell, rows, query, sort) if rows else _nothing(shell, query),
        _pages(count, query, page),
        _unreadable(unreadable),
    )


def session_link(each: IndexedSession) -> Html:
    # The id first: it is what other commands take, and a narrow column cuts the end.
    facts = (each.id[:ID_SHOWN], short_project(each.project), each.agent)
    return element(
        "a",
        element("span", each.title, class_="title"),
        element("small", " · ".join(fact for fact in facts if fact)),
        href=f"/session/{each.id}",
        class_="session-link",
    )


def short_project(path: str) -> str:
    """The last two parts of a path: enough to recognise a project."""
    return "/".join(path.rstrip("/").split("/")[-2:]) or path


def countdown(shell: Shell, each: IndexedSession) -> Html | str:
    """When the cache entry of the last call expires; the script counts down."""
    if each.ended is None or not each.ttl or each.ended + each.ttl <= shell.now:
        return ""
    if each.ended > shell.now + CLOCK_SKEW_SECONDS:
        return ""
    left = each.ended + each.ttl - shell.now
    words = f"cache expires in {left // 60}:{left % 60:02d}"
    return element("span", words, class_="countdown", data_until=each.ended + each.ttl)


def _table(shell: Shell, rows: Sequence[IndexedSession], query: Mapping[str, str], sort: Sort) -> Html:
    head = element("thead", element("tr", [_head(name, key, query, sort) for name, key in _COLUMNS]))
    table = element("table", head, element("tbody", [_row(shell, each) for each in rows]))
    scroll = element("div", table, class_="scroll", tabindex=0, role="region", aria_label="Sessions")
    return element("section", scroll, class_="flush", data_live="sessions")


def _head(name: str, key: Sort | None, query: Mapping[str, str], sort: Sort) -> Html:
    if key is None:
        return element("th", name, scope="col")
    link = element("a", name, href=address("/sessions", query, sort="" if key == "date" else key, page=""))
    order = "ascending" if key in ("title", "project") else "descending"
    return element("th", link, scope="col", aria_sort=order if key == sort else None)


def _row(shell: Shell, each: IndexedSession) -> Html:
    share = each.context / each.window if each.window else 0
    size = formatting.tokens(each.context) + (f" of {formatting.tokens(each.window)}" if each.window else "")
    lost = f"{each.breaks:,}" if each.breaks else "–"
    # Without a known price the cost of a break is not known either.
    lost += f" · {dollars(each.break_nanos)}" if each.break_nanos else ""
    return element(
        "tr",
        element("td", session_link(each)),
        element("td", shell.moment(each.ended), " ", countdown(shell, each), class_="left soft"),
        element("td", short_model(each.model), class_="left soft"),
        element(
            "td",
            figures.spark(
                each.spark, each.window, label=f"context over time, at most {formatting.tokens(each.peak)}"
            ),
            element("small", size, class_="warn" if share > 0.8 else "soft"),
            class_="left",
        ),
        element("td", _cost(each), class_="number"),
        element("td", f"{each.calls:,}"),
        element("td", formatting.share(each.read, each.prompt)),
        element("td", lost),
        element("td", f"{each.compactions:,}" if each.compactions else "–"),
        data_session=each.id,
    )


def _cost(each: IndexedSession) -> str:
    if each.practice and not each.calls:
        return "practice"
    return cost(each.nanos, each.unpriced) if each.calls else "–"


def short_model(name: str) -> str:
    """Without the date that ends most names."""
    head, _, tail = name.rpartition("-")
    return head.removeprefix("claude-") if tail.isdigit() and len(tail) == 8 else name.removeprefix("claude-")


def _nothing(shell: Shell, query: Mapping[str, str]) -> Html:
    if any(query.values()):
        found = empty("No session matches", element("a", "Show all sessions", href="/sessions"))
    elif not shell.progress.is_done:
        found = empty("Reading your sessions", "The list fills while they are read.")
    else:
        found = empty(
            "No sessions found", "Name a file or folder: ", element("code", "everturn dashboard PATH")
        )
    return element("section", found, data_live="sessions")


def _pages(count: int, query: Mapping[str, str], page: int) -> Html | str:
    last = max(1, -(-count // PAGE_SIZE))
    if last == 1:
        return ""
    links = [
        element("a", words, href=address("/sessions", query, page=str(to)), rel=rel)
        if 1 <= to <= last
        else element("span", words, class_="soft")
        for words, to, rel in (("← Newer", page - 1, "prev"), ("Older →", page + 1, "next"))
    ]
    return element(
        "nav", links[0], element("span", f"Page {page:,} of {last:,}"), links[1], class_="pages",
        aria_label="Pages of the list",
    )  # fmt: skip


def _unreadable(found: Sequence[tuple[str, str]]) -> Html | str:
    if not found:
        return ""
    rows = [element("tr", element("td", path), element("td", why, class_="words")) for path, why in found]
    table = element("div", element("table", element("tbody", rows)), class_="scroll tall-table", tabindex=0,
                    role="region", aria_label="Files that could not be read")  # fmt: skip
    return panel(
        "Files that could not be read",
        element("details", element("summary", f"{formatting.count(len(found), 'file')}"), table),
    )
