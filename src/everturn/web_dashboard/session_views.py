"""What the addresses of one session and of comparisons answer.

These pages read transcripts and replay them, which takes many imports, so `app.py` imports this file when
it is first needed.
"""

from collections.abc import Mapping
from typing import Any, Final

from everturn.replay.page.markup import Html, element
from everturn.replay.requests_seen import around, compare_with_previous, replaced_by, seen_at
from everturn.session.state_file import SessionState, decode_state
from everturn.session.transcripts import read_state_beside
from everturn.web_dashboard import queries
from everturn.web_dashboard.comparisons import DEFAULT_POLICIES, OFFERED
from everturn.web_dashboard.dashboard import Dashboard
from everturn.web_dashboard.pages.filters import address
from everturn.web_dashboard.pages.layout import render
from everturn.web_dashboard.pages.session import SessionView, call_part, session_page
from everturn.web_dashboard.pages.transcript_parts import blocks, difference_part, replaced_part, seen_part
from everturn.web_dashboard.pages.what_if import Chosen, choose_page, job_page, result_page
from everturn.web_dashboard.queries import IndexedSession, Scope
from everturn.web_dashboard.views import NotFound, Query, find, parse_number

_WRITABLE: Final = "claude-code"
MAX_OFFERED: Final = 100
_PART_TITLES: Final = {
    "call": "The window at call {number:,}",
    "text": "What the model saw at call {number:,}",
    "difference": "Call {number:,} compared with the call before it",
    "replaced": "What was replaced",
    "record": "A part of the conversation",
}


def session(dashboard: Dashboard, id: str, query: Query) -> str:
    view = _view(dashboard, id, query, parse_number(query.get("call", ""), 0))
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
    thread = dashboard.tools.reader.thread(row.path, row.file, query.get("thread", ""))
    return seen_part(seen_at(thread, number))


def difference(dashboard: Dashboard, id: str, number: int, query: Query) -> Html:
    row = find(dashboard, id)
    thread = dashboard.tools.reader.thread(row.path, row.file, query.get("thread", ""))
    return difference_part(compare_with_previous(thread, number))


def replaced(dashboard: Dashboard, id: str, boundary: str, query: Query) -> Html:
    row = find(dashboard, id)
    thread = dashboard.tools.reader.thread(row.path, row.file, query.get("thread", ""))
    return replaced_part(replaced_by(thread, boundary))


def record(dashboard: Dashboard, id: str, uuid: str, query: Query) -> Html:
    row = find(dashboard, id)
    return blocks(around(dashboard.tools.reader.session(row.path, row.file), uuid))


def what_if(dashboard: Dashboard, query: Query) -> str:
    chosen = find(dashboard, query["session"]) if query.get("session") else None
    rows = [chosen] if chosen else queries.list_sessions(dashboard.index, Scope(), "cost", most=MAX_OFFERED)
    policies = query.get("policies") or DEFAULT_POLICIES
    named = [each.strip() for each in policies.split(",") if each.strip()]
    offered = tuple(dict.fromkeys((*OFFERED, *named[:8])))
    picked = Chosen([row for row in rows if row.calls or chosen], policies, offered)
    return choose_page(dashboard.shell("/what-if"), picked, dashboard.tools.comparisons.recent())


def comparison(dashboard: Dashboard, id: str) -> str:
    shell = dashboard.shell("/what-if")
    if (job := dashboard.tools.comparisons.job(id)) is not None:
        return job_page(shell, job)
    found = dashboard.tools.comparisons.load(id)
    if found is None:
        raise NotFound("This comparison is not kept any more. Compute it again.")
    return result_page(shell, *found)


def part_page(dashboard: Dashboard, kind: str, where: Mapping[str, Any], query: Query, part: Html) -> str:
    """A part as a page of its own, for links and for browsers without a script."""
    row = find(dashboard, where["id"])
    title = _PART_TITLES[kind].format(**where)
    back = address(f"/session/{row.id}", {"thread": query.get("thread", "")})
    head = element(
        "div",
        element(
            "div",
            element("a", "Back to the session", href=back, class_="crumb"),
            element("h1", title),
            element("p", row.title, class_="soft"),
        ),
        class_="page-head",
    )
    # Their parts have headings of the third level.
    said = "Before and after" if kind == "replaced" else ""
    if kind == "difference":
        why = _why_it_broke(dashboard, row, where["number"], query)
        said = f"Cache broke: {why}" if why else "The cache did not break here"
    below = element("h2", said) if said else ""
    return render(dashboard.shell("/sessions"), title, head, element("section", below, part))


def _why_it_broke(dashboard: Dashboard, row: IndexedSession, number: int, query: Query) -> str:
    detail = dashboard.index.load_detail(row.number)
    agent = query.get("thread", "")
    breaks = detail.breaks if detail else ()
    return next((each.why for each in breaks if (each.agent, each.number) == (agent, number)), "")


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
    name, policies = dashboard.tools.comparisons.latest_of(row)
    can_act = row.format == _WRITABLE and row.path == row.file
    kept = decode_state(read_state_beside(row.path)) if can_act and not agent else SessionState()
    return SessionView(row, detail, thread, at, can_act, policies, name, kept)
