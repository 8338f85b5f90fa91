"""One session: what filled its context over time, what each call paid, what broke and what changed (DB-4)."""

from collections.abc import Mapping, Sequence

import msgspec

from everturn.catalog.names import ID_SHOWN
from everturn.dashboard.grid import BUFFER, FREE, LABELS, grid
from everturn.replay.page import formatting
from everturn.replay.page.cost_figures import so_far
from everturn.replay.page.markup import Html, element
from everturn.replay.page.plot import swatches
from everturn.replay.page.session_comparison import SessionComparison, cheapest, sum_policies
from everturn.session.state_file import SessionState
from everturn.web_dashboard import figures
from everturn.web_dashboard.pages.economy import economy_panels
from everturn.web_dashboard.pages.filters import address
from everturn.web_dashboard.pages.layout import Shell, cost, dollars, empty, panel, render, tile, tiles, void
from everturn.web_dashboard.pages.sessions import countdown, short_model
from everturn.web_dashboard.queries import IndexedSession
from everturn.web_dashboard.values import BreakRow, CallDetail, EditDetail, SessionDetail, ThreadDetail

MAX_LISTED = 200
# Edits that took something out of view.
_OPENED = ("compaction", "clearing", "offload")
_PAID = (("read", "Read from the cache"), ("write", "Written to the cache"), ("plain", "Uncached"))
_REPORTED = "Totals are what the API reported; the split by kind is estimated."
_NOT_REPORTED = "The file reports no usage: sizes are estimates, and there are no costs."


class SessionView(msgspec.Struct, frozen=True):
    """What the page shows: a session, one of its conversations, and one of that one's calls."""

    row: IndexedSession
    detail: SessionDetail
    thread: ThreadDetail
    call: int
    # Whether everturn can write to it: only Claude Code's format can be appended to.
    can_act: bool
    # The newest comparison with this session, and its name.
    policies: SessionComparison | None = None
    comparison: str = ""
    # What everturn keeps beside the transcript of a session of its own.
    kept: SessionState = SessionState()

    @property
    def breaks(self) -> list[BreakRow]:
        return [each for each in self.detail.breaks if each.agent == self.thread.agent]


def session_page(shell: Shell, view: SessionView) -> str:
    row, thread = view.row, view.thread
    if not thread.calls:
        said = empty("No calls yet", "The session is shown as soon as the model has answered once.")
        return render(shell, row.title, _head(shell, view), element("section", said), data_row(row))
    content = element(
        "div",
        _tiles(view),
        element("div", _threads(view), data_live="threads"),
        _context(shell, view),
        element("div", _breaks(shell, view), _edits(shell, view), class_="columns"),
        element("div", economy_panels(shell, view.kept, view.row), data_live="economy"),
        _policies(view),
        element("div", _notes(view.detail.notes), data_live="notes"),
    )
    return render(shell, row.title, _head(shell, view), content, data_row(row))


def data_row(row: IndexedSession) -> Html:
    """Which session the script asks to be told about."""
    return element("span", data_session_page=row.id, hidden=True)


def _head(shell: Shell, view: SessionView) -> Html:
    row = view.row
    facts = (
        row.id[:ID_SHOWN],
        row.project,
        row.agent,
        short_model(row.model),
        f"{shell.moment(row.started)} to {shell.moment(row.ended)}",
    )
    actions: list[str] = [element("a", "Export", href=f"/session/{row.id}/export", class_="button")]
    if view.can_act:
        actions = [
            _action(row, "plan", "Compact…"),
            _action(row, "undo", "Undo compaction…") if row.compactions else "",
            _action(row, "pin", "Pin…"),
            *actions,
        ]
    return element(
        "div",
        element(
            "div",
            element("a", "Sessions", href="/sessions", class_="crumb"),
            element("h1", row.title),
            element(
                "p", " · ".join(each for each in facts if each), " ", countdown(shell, row), class_="soft"
            ),
            element("p", element("code", shell.place(row.path)), class_="soft fine path"),
        ),
        element("div", actions, class_="controls"),
        class_="page-head",
        data_live="head",
    )


def _action(row: IndexedSession, name: str, words: str) -> Html:
    return element("button", words, type="button", class_="button", data_action=name, data_session=row.id)


def _cost(row: IndexedSession) -> Html:
    billed = formatting.count(row.calls, "call")
    if not row.practice:
        return tile("Cost", cost(row.nanos, row.unpriced) if row.calls else "–", billed)
    practice = f"{formatting.count(row.practice, 'call')} of practice with the twin: nothing billed"
    if not row.calls:
        return tile("Cost", "practice", practice)
    return tile("Cost", cost(row.nanos, row.unpriced), f"{billed}; {practice}")


def _hit_rate(row: IndexedSession) -> Html:
    if row.prompt:
        return tile("Hit rate", formatting.share(row.read, row.prompt), "of the input")
    why = "practice is left out" if row.practice else "the file reports no usage"
    return tile("Hit rate", "–", why)


def _extra(view: SessionView, lost: int) -> str:
    if not view.detail.breaks:
        return "none found"
    return f"{dollars(lost)} extra, estimated" if lost else "no price is known"


def _describe_window(detail: SessionDetail, context: int) -> str:
    if not detail.window:
        return f"window not known: {detail.window_why}"
    full = formatting.share(context, detail.window)
    return f"{full} of {formatting.tokens(detail.window)}: {detail.window_why}"


def _tiles(view: SessionView) -> Html:
    row, call = view.row, view.thread.calls[-1]
    lost = sum(each.nanos or 0 for each in view.detail.breaks)
    return tiles(
        [
            _cost(row),
            tile("Context", formatting.tokens(call.context), _describe_window(view.detail, call.context)),
            tile("Largest context", formatting.tokens(row.peak), "tokens"),
            _hit_rate(row),
            tile(
                "Cache breaks",
                f"{len(view.detail.breaks):,}",
                _extra(view, lost),
            ),
            tile("Compactions", f"{row.compactions:,}", "" if row.compactions else "none"),
        ],
        data_live="tiles",
    )


def _threads(view: SessionView) -> Html | str:
    if len(view.detail.threads) < 2:
        return ""
    links = [
        element(
            "a",
            element("span", each.title or each.agent if each.agent else "Main conversation"),
            element("small", f" {formatting.count(len(each.calls), 'call')}"),
            href=address(f"/session/{view.row.id}", {"thread": each.agent}),
            aria_current="true" if each.agent == view.thread.agent else None,
            title=f"{each.agent}: {each.title}" if each.agent and each.title else None,
        )
        for each in view.detail.threads
    ]
    return element("nav", links, class_="threads", aria_label="Conversations of this session")


def _context(shell: Shell, view: SessionView) -> Html:
    calls = view.thread.calls
    at = calls[min(view.call, len(calls)) - 1]
    used = [kind for place, kind in enumerate(LABELS) if any(call.kinds[place] for call in calls)]
    broken = [(each.number, each.why) for each in view.breaks]
    chart = figures.context_chart(
        calls,
        view.thread.edits,
        broken,
        view.detail.window,
        [_call_said(shell, call, dict(broken)) for call in calls],
        unit=lambda value: formatting.tokens(round(value)),
    )
    is_reported = all(call.is_reported for call in calls)
    return panel(
        "Context over time",
        element(
            "div",
            element(
                "div",
                swatches((f"k-{kind}", LABELS[kind]) for kind in used),
                swatches(_PAID),
                class_="legends",
            ),
            chart,
            data_live="chart",
        ),
        _slider(view, at.number),
        element("div", call_part(shell, view, at), id="call-part", aria_live="polite", data_live="call"),
        note=_REPORTED if is_reported else _NOT_REPORTED,
    )


def _slider(view: SessionView, number: int) -> Html:
    """Chooses the call whose window is shown."""
    count = len(view.thread.calls)
    return element(
        "label",
        element("span", "Call"),
        void(
            "input",
            type="range",
            min=1,
            max=count,
            value=number,
            data_calls=_call_address(view, 0).rpartition("/")[0],
            data_thread=view.thread.agent,
        ),
        element("output", f"{number:,} of {count:,}"),
        class_="slider",
        data_live="slider",
    )


def _call_said(shell: Shell, call: CallDetail, broken: Mapping[int, str]) -> list[str]:
    said = [
        f"Call {call.number:,} · {shell.moment(call.at)}",
        f"{formatting.tokens(call.context)} tokens" + (f" · {dollars(call.nanos)}" if call.nanos else ""),
    ]
    if call.is_reported:
        paid = ((call.read, "read"), (call.written, "written"), (call.plain, "uncached"))
        said.append(", ".join(f"{formatting.tokens(tokens)} {name}" for tokens, name in paid))
    if why := broken.get(call.number):
        said.append(f"Cache broke: {why}")
    return said


def _call_address(view: SessionView, number: int, part: str = "call") -> str:
    return f"/session/{view.row.id}/{part}/{number}"


def call_part(shell: Shell, view: SessionView, call: CallDetail) -> Html:
    """The window at one call: cells, numbers, and where to read what the model saw. If the window is not
    known, the cells are the context."""
    window = view.detail.window or max(call.context, 1)
    parts = [(kind, tokens) for kind, tokens in zip(LABELS, call.kinds, strict=True) if tokens]
    free = max(0, view.detail.auto - call.context)
    buffer = max(0, window - max(call.context, view.detail.auto))
    cells = grid([*parts, (FREE, free), (BUFFER, buffer)], window)
    rows = [
        element(
            "tr",
            element("th", element("i", class_=f"swatch k-{kind}"), figures.GRID_NAMES[kind], scope="row"),
            element("td", formatting.tokens(tokens)),
            element("td", formatting.share(tokens, window), class_="soft"),
        )
        for kind, tokens in [*parts, (FREE, free), (BUFFER, buffer)]
        if tokens
    ]
    query = {"thread": view.thread.agent}
    text = address(_call_address(view, call.number, "text"), query)
    title = f"Call {call.number:,} of {len(view.thread.calls):,}"
    facts = " · ".join(_call_said(shell, call, {})[1:])
    return element(
        "div",
        element(
            "div",
            element("h3", title),
            element("p", shell.moment(call.at), " · ", short_model(call.model), class_="soft"),
            element("p", facts, f", {formatting.tokens(call.output)} output" if call.is_reported else ""),
            element(
                "details",
                element("summary", "What the model saw"),
                element("p", element("a", "Open as a page", href=text), class_="soft"),
                data_load=text,
            ),
            class_="call-facts",
        ),
        figures.window_grid(cells),
        element("table", element("tbody", rows), class_="legend-table"),
        class_="call-part",
    )


def _breaks(shell: Shell, view: SessionView) -> Html:
    found = sorted(view.breaks, key=lambda each: -(each.nanos or 0))
    if not found:
        none = element("p", "None found in this conversation.", class_="soft")
        return panel("Cache breaks", none, data_live="breaks")
    items = [
        element(
            "details",
            element(
                "summary",
                element("b", dollars(each.nanos) if each.nanos is not None else "–", class_="number"),
                element("span", f"Call {each.number:,}: {each.why}"),
                element("small", f"{formatting.tokens(each.lost)} tokens · {shell.moment(each.at)}"),
            ),
            element(
                "p",
                element("a", "Compare the two requests", href=_difference(view, each)),
                class_="soft",
            ),
            data_load=_difference(view, each),
            class_="item",
        )
        for each in found[:MAX_LISTED]
    ]
    return panel("Cache breaks", items, note="most expensive first", data_live="breaks")


def _difference(view: SessionView, each: BreakRow) -> str:
    return address(_call_address(view, each.number, "difference"), {"thread": view.thread.agent})


def _edits(shell: Shell, view: SessionView) -> Html:
    found = view.thread.edits
    if not found:
        none = element("p", "The view was never edited.", class_="soft")
        return panel("Edits and compactions", none, data_live="edits")
    return panel(
        "Edits and compactions",
        [_edit(shell, view, each) for each in found[:MAX_LISTED]],
        note=f"{len(found):,} in order"
        if len(found) <= MAX_LISTED
        else f"the first {MAX_LISTED} of {len(found):,}",
        data_live="edits",
    )


def _edit(shell: Shell, view: SessionView, each: EditDetail) -> Html:
    saved = f"{formatting.tokens(each.saved)} tokens saved · " if each.saved else ""
    words = element("span", each.said, f". {each.why}" if each.why else "")
    small = element("small", f"{saved}before call {each.call:,} · {shell.moment(each.at)}")
    if each.kind not in _OPENED:
        return element("div", element("span", class_=f"tag t-{each.kind}"), words, small, class_="item")
    where = address(f"/session/{view.row.id}/replaced/{each.uuid}", {"thread": view.thread.agent})
    return element(
        "details",
        element("summary", element("span", class_=f"tag t-{each.kind}"), words, small),
        element("p", element("a", "What it replaced", href=where), class_="soft"),
        data_load=where,
        class_="item",
    )


def _policies(view: SessionView) -> Html:
    link = address("/what-if", {"session": view.row.id})
    if view.policies is None:
        return panel(
            "Cost under other policies",
            element("p", "Not computed yet. ", element("a", "Compare policies", href=link), class_="soft"),
            data_live="policies",
        )
    found = sum_policies([view.policies])
    best = cheapest(found)
    names = [
        element("li", element("b", each.policy), " ", formatting.dollars(each.dollars)) for each in found
    ]
    return panel(
        "Cost under other policies",
        so_far(view.policies, best.policy),
        element("ul", names, class_="legend"),
        note=element("a", "All figures", href=f"/what-if/{view.comparison}"),
        data_live="policies",
    )


def _notes(notes: Sequence[str]) -> Html | str:
    if not notes:
        return ""
    listed = [element("li", note) for note in notes[:MAX_LISTED]]
    inside = element(
        "details", element("summary", formatting.count(len(notes), "note")), element("ul", listed)
    )
    return panel("Problems found, and how they were handled", inside)
