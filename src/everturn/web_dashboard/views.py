"""What each address answers: reads the query, asks the index, returns a page.

These functions block on the database or on a transcript, so the application runs them in threads. Query
values come from anywhere: unknown ones mean the default. What reads transcripts or replays them is in
`session_views.py`, so that the first page does not wait for those imports.
"""

from collections.abc import Mapping
from typing import Final, cast

from everturn.errors import InputError
from everturn.replay.page.markup import element
from everturn.web_dashboard import queries
from everturn.web_dashboard.avoidable import find_avoidable
from everturn.web_dashboard.dashboard import Dashboard
from everturn.web_dashboard.pages.filters import Choices
from everturn.web_dashboard.pages.layout import empty, render
from everturn.web_dashboard.pages.overview import Overview, overview_page
from everturn.web_dashboard.pages.recall import recall_page
from everturn.web_dashboard.pages.sessions import CLOCK_SKEW_SECONDS, sessions_page
from everturn.web_dashboard.periods import PERIODS, Period, choose_period, parse_day
from everturn.web_dashboard.queries import IndexedSession, Scope, Sort

Query = Mapping[str, str]
_DAY: Final = 86_400
# A session with a call in this time counts as running.
_RUNNING_SECONDS: Final = 15 * 60


class NotFound(InputError):
    """The address names something that is not there, or no longer."""


def overview(dashboard: Dashboard, query: Query) -> str:
    scope, before = _scope(dashboard, query)
    index = dashboard.index
    span = queries.span_of(index, scope) or (0, 0)
    asked = query.get("by") in PERIODS
    period = cast(Period, query["by"]) if asked else choose_period(span[1] - span[0])
    now = int(dashboard.clock())
    around_now = Scope(since=now - _RUNNING_SECONDS, until=now + CLOCK_SKEW_SECONDS)
    recent = queries.list_sessions(index, around_now, most=6)
    data = Overview(
        sums=queries.total(index, scope),
        before=queries.total(index, before) if before else None,
        sessions=queries.count_sessions(index, scope),
        period=period,
        periods=queries.by_period(index, scope, period, dashboard.zone),
        groups={name: queries.by_group(index, scope, name, 8) for name in queries.GROUPINGS},
        avoidable=find_avoidable(queries.breaks_by_reason(index, scope)),
        biggest=queries.list_sessions(index, scope, "cost", most=8),
        running=recent,
        practice=queries.count_practice(index, scope),
    )
    return overview_page(dashboard.shell("/"), data, query, _choices(dashboard))


def sessions(dashboard: Dashboard, query: Query) -> str:
    scope, _ = _scope(dashboard, query)
    sort = cast(Sort, query.get("sort") if query.get("sort") in queries.SORTS else "date")
    count = queries.count_sessions(dashboard.index, scope)
    last = max(1, -(-count // queries.PAGE_SIZE))
    page = min(last, max(1, parse_number(query.get("page", ""), 1)))
    rows = queries.list_sessions(dashboard.index, scope, sort, start=(page - 1) * queries.PAGE_SIZE)
    unreadable = queries.list_unreadable(dashboard.index) if page == 1 and not any(query.values()) else []
    shell = dashboard.shell("/sessions")
    return sessions_page(shell, rows, count, query, _choices(dashboard), unreadable, sort=sort, page=page)


def recall(dashboard: Dashboard, query: Query) -> str:
    words = query.get("q", "").strip()[:400]
    hits, remark = queries.search_texts(dashboard.index, words) if words else ([], "")
    return recall_page(dashboard.shell("/recall"), words, hits, remark)


def problem_page(dashboard: Dashboard, title: str, why: str) -> str:
    links = element("a", "Overview", href="/"), " · ", element("a", "Sessions", href="/sessions")
    said = element("span", why, class_="why"), links
    return render(dashboard.shell(""), title, element("section", empty(title, *said, is_page=True)))


def find(dashboard: Dashboard, id: str) -> IndexedSession:
    found = queries.find_session(dashboard.index, id)
    if found is None:
        raise NotFound("No session has this address. It may not have been read yet, or its file is gone.")
    return found


def _scope(dashboard: Dashboard, query: Query) -> tuple[Scope, Scope | None]:
    """The filters of a query, and the equally long time before them, if they have a beginning."""
    names = {name: query.get(name, "") for name in ("project", "model", "agent")}
    now = int(dashboard.clock())
    days = parse_number(query.get("range", ""), 0)
    since = now - days * _DAY if 0 < days <= 3_660 else None
    until = None
    if query.get("since"):
        since = parse_day(query["since"], dashboard.zone)
    if query.get("until"):
        until = parse_day(query["until"], dashboard.zone, days=1)
    scope = Scope(query.get("q", "").strip(), **names, since=since, until=until)
    if since is None:
        return scope, None
    length = (until or now) - since
    return scope, Scope(scope.text, **names, since=since - length, until=since)


def _choices(dashboard: Dashboard) -> Choices:
    return Choices({name: queries.list_names(dashboard.index, name) for name in queries.GROUPINGS})


def parse_number(text: str, otherwise: int) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else otherwise
