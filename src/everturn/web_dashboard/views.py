"""What each address answers: reads the query, asks the index, returns a page.

These functions block on the database or on a transcript, so the application runs them in threads. Query
values come from anywhere: unknown ones mean the default.
"""

from collections.abc import Mapping
from typing import Final, cast

from everturn.errors import InputError
from everturn.replay.page.markup import Html, element
from everturn.replay.requests_seen import around, compare_with_previous, replaced_by, seen_at
from everturn.session.state_file import SessionState, decode_state
from everturn.session.transcripts import read_state_beside
from everturn.web_dashboard import queries
from everturn.web_dashboard.avoidable import find_avoidable
from everturn.web_dashboard.comparisons import DEFAULT_POLICIES, OFFERED
from everturn.web_dashboard.dashboard import Dashboard
from everturn.web_dashboard.pages.filters import Choices
from everturn.web_dashboard.pages.layout import empty, render
from everturn.web_dashboard.pages.overview import Overview, overview_page
from everturn.web_dashboard.pages.recall import recall_page
from everturn.web_dashboard.pages.session import SessionView, call_part, session_page
from everturn.web_dashboard.pages.sessions import CLOCK_SKEW_SECONDS, sessions_page
from everturn.web_dashboard.pages.transcript_parts import blocks, difference_part, replaced_part, seen_part
from everturn.web_dashboard.pages.what_if import Chosen, choose_page, job_page, result_page
from everturn.web_dashboard.queries import IndexedSession, Period, Scope, Sort

Query = Mapping[str, str]
_DAY: Final = 86_400
# A session with a call in this time counts as running.
_RUNNING_SECONDS: Final = 15 * 60
_WRITABLE: Final = "claude-code"
MAX_OFFERED: Final = 100


class NotFound(InputError):
    """The address names something that is not there, or no longer."""


def overview(dashboard: Dashboard, query: Query) -> str:
    scope, before = _scope(dashboard, query)
    index = dashboard.index
    span = queries.span_of(index, scope) or (0, 0)
    asked = query.get("by") in queries.PERIODS
    period = cast(Period, query["by"]) if asked else queries.choose_period(span[1] - span[0])
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
    )
    return overview_page(dashboard.shell("/"), data, query, _choices(dashboard))


def sessions(dashboard: Dashboard, query: Query) -> str:
    scope, _ = _scope(dashboard, query)
    sort = cast(Sort, query.get("sort") if query.get("sort") in queries.SORTS else "date")
    count = queries.count_sessions(dashboard.index, scope)
    last = max(1, -(-count // queries.PAGE_SIZE))
    page = min(last, max(1, _number(query.get("page", ""), 1)))
    rows = queries.list_sessions(dashboard.index, scope, sort, start=(page - 1) * queries.PAGE_SIZE)
    unreadable = queries.list_unreadable(dashboard.index) if page == 1 and not any(query.values()) else []
    shell = dashboard.shell("/sessions")
    return sessions_page(shell, rows, count, query, _choices(dashboard), unreadable, sort=sort, page=page)


def session(dashboard: Dashboard, id: str, query: Query) -> str:
    view = _view(dashboard, id, query, _number(query.get("call", ""), 0))
    return session_page(dashboard.shell("/sessions"), view)


def call(dashboard: Dashboard, id: str, number: int, query: Query) -> Html:
    view = _view(dashboard, id, query, number)
    if not 1 <= number <= len(view.thread.calls):
        raise NotFound(
            f"This conversation has {len(view.thread.calls):,} calls; there is no call {number:,}."
        )
    return call_part(dashboard.shell("/sessions"), view, view.thread.calls[number - 1])


def text(dashboard: Dashboard, id: str, number: int, query: Query) -> Html:
    row = find(dashboard, id)
    thread = dashboard.reader.thread(row.path, row.file, query.get("thread", ""))
    return seen_part(seen_at(thread, number))


def difference(dashboard: Dashboard, id: str, number: int, query: Query) -> Html:
    row = find(dashboard, id)
    thread = dashboard.reader.thread(row.path, row.file, query.get("thread", ""))
    return difference_part(compare_with_previous(thread, number))


def replaced(dashboard: Dashboard, id: str, boundary: str, query: Query) -> Html:
    row = find(dashboard, id)
    thread = dashboard.reader.thread(row.path, row.file, query.get("thread", ""))
    return replaced_part(replaced_by(thread, boundary))


def record(dashboard: Dashboard, id: str, uuid: str, query: Query) -> Html:
    row = find(dashboard, id)
    return blocks(around(dashboard.reader.session(row.path, row.file), uuid))


def recall(dashboard: Dashboard, query: Query) -> str:
    words = query.get("q", "").strip()[:400]
    hits, remark = queries.search_texts(dashboard.index, words) if words else ([], "")
    return recall_page(dashboard.shell("/recall"), words, hits, remark)


def what_if(dashboard: Dashboard, query: Query) -> str:
    chosen = find(dashboard, query["session"]) if query.get("session") else None
    rows = [chosen] if chosen else queries.list_sessions(dashboard.index, Scope(), "cost", most=MAX_OFFERED)
    policies = query.get("policies") or DEFAULT_POLICIES
    named = [each.strip() for each in policies.split(",") if each.strip()]
    offered = tuple(dict.fromkeys((*OFFERED, *named[:8])))
    picked = Chosen([row for row in rows if row.calls or chosen], policies, offered)
    return choose_page(dashboard.shell("/what-if"), picked, dashboard.comparisons.recent())


def comparison(dashboard: Dashboard, id: str) -> str:
    shell = dashboard.shell("/what-if")
    if (job := dashboard.comparisons.job(id)) is not None:
        return job_page(shell, job)
    found = dashboard.comparisons.load(id)
    if found is None:
        raise NotFound("This comparison is not kept any more. Compute it again.")
    return result_page(shell, *found)


def problem_page(dashboard: Dashboard, title: str, why: str) -> str:
    links = element("a", "Overview", href="/"), " · ", element("a", "Sessions", href="/sessions")
    said = element("span", why, class_="why"), links
    return render(dashboard.shell(""), title, element("section", empty(title, *said, is_page=True)))


def part_page(dashboard: Dashboard, id: str, part: Html) -> str:
    """A part as a page of its own, for links and for browsers without a script."""
    row = find(dashboard, id)
    back = element("a", "Back to the session", href=f"/session/{id}", class_="crumb")
    head = element("div", element("div", back, element("h1", row.title)), class_="page-head")
    return render(dashboard.shell("/sessions"), row.title, head, element("section", part))


def find(dashboard: Dashboard, id: str) -> IndexedSession:
    found = queries.find_session(dashboard.index, id)
    if found is None:
        raise NotFound("No session has this address. It may not have been read yet, or its file is gone.")
    return found


def _view(dashboard: Dashboard, id: str, query: Query, number: int) -> SessionView:
    row = find(dashboard, id)
    detail = dashboard.index.load_detail(row.number)
    agent = query.get("thread", "")
    thread = next((each for each in detail.threads if each.agent == agent), None) if detail else None
    if detail is None or thread is None:
        # A file that holds only a sub-agent has no main conversation.
        if detail is None or not detail.threads or agent:
            raise NotFound("This session has no such conversation.")
        thread = detail.threads[0]
    at = number if 1 <= number <= len(thread.calls) else len(thread.calls)
    name, policies = dashboard.comparisons.latest_of(row)
    can_act = row.format == _WRITABLE and row.path == row.file
    kept = decode_state(read_state_beside(row.path)) if can_act and not agent else SessionState()
    return SessionView(row, detail, thread, at, can_act, policies, name, kept)


def _scope(dashboard: Dashboard, query: Query) -> tuple[Scope, Scope | None]:
    """The filters of a query, and the equally long time before them, if they have a beginning."""
    names = {name: query.get(name, "") for name in ("project", "model", "agent")}
    now = int(dashboard.clock())
    days = _number(query.get("range", ""), 0)
    since = now - days * _DAY if 0 < days <= 3_660 else None
    until = None
    if query.get("since"):
        since = queries.parse_day(query["since"], dashboard.zone)
    if query.get("until"):
        until = queries.parse_day(query["until"], dashboard.zone, days=1)
    scope = Scope(query.get("q", "").strip(), **names, since=since, until=until)
    if since is None:
        return scope, None
    length = (until or now) - since
    return scope, Scope(scope.text, **names, since=since - length, until=since)


def _choices(dashboard: Dashboard) -> Choices:
    return Choices({name: queries.list_names(dashboard.index, name) for name in queries.GROUPINGS})


def _number(text: str, otherwise: int) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else otherwise
