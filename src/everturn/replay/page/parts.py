"""The parts of the page from the top down: headline, policies, table of sessions, one section per session."""

from collections.abc import Sequence
from typing import Final

import msgspec

from everturn.replay.page import formatting, plot
from everturn.replay.page.cost_figures import bars, legend, so_far, swatches
from everturn.replay.page.markup import Html, element, json_script
from everturn.replay.page.session_comparison import (
    PolicyTotals,
    SessionComparison,
    baseline,
    bound,
    cheapest,
    in_order,
    sum_policies,
    written,
)
from everturn.replay.page.session_figures import figures
from everturn.replay.policies import RECORDED
from everturn.replay.refetches import Refetch
from everturn.replay.reported import describe_error
from everturn.replay.runs import ReplayRun, SimulatedCall

# Longer lists are cut on the page, with a note. `everturn replay --json` has every call.
MAX_EVENTS: Final = 150
_CALLED: Final = {
    "main": "turn", "compact": "summary", "refresh": "refreshes the cache", "refetch": "refetch",
}  # fmt: skip
_MARKS: Final = (
    ("read", "read from the cache"),
    ("write", "written to the cache"),
    ("plain", "uncached"),
    ("boundary", "compaction"),
    ("pause", "pause above 5 min"),
    ("thread", "next sub-agent"),
)


def headline(sessions: Sequence[SessionComparison]) -> Html:
    found = sum_policies(sessions)
    base, best = baseline(found), cheapest(found)
    calls = formatting.count(max(each.calls for each in found), "call")
    if best.dollars < base.dollars:
        said = f"{best.policy} would have cost {formatting.dollars(best.dollars)} instead of "
        said += f"{formatting.dollars(base.dollars)}"
    else:
        said = f"{base.policy} was the cheapest: {formatting.dollars(base.dollars)}"
    lead = f"{formatting.count(len(sessions), 'session')}, {calls}, replayed under "
    lead += f"{formatting.count(len(found), 'policy')}. ".replace("policys", "policies")
    lead += "Computed locally from the recordings, without calling a model."
    tiles = [
        _tile(f"Cost under {base.policy}", formatting.dollars(base.dollars), _hit(base), _error_of(base)),
        _tile(
            f"Cheapest: {best.policy}",
            formatting.dollars(best.dollars),
            _saved(best, base),
            f"; {_hit(best)}",
        ),
        _tile(
            "Refetches of the cheapest",
            best.refetches_per_100,
            "per 100 calls: content needed again after it was removed",
        ),
        _tile(
            "Largest context",
            formatting.tokens(base.peak),
            f"tokens; {formatting.tokens(best.peak)} under {best.policy}",
        ),
    ]
    floor = bound(session.floor for session in sessions)
    if floor is not None:
        tiles.append(_tile("Floor", formatting.dollars(floor), "no policy can cost less"))
    return element(
        "header",
        element("div", "everturn replay", class_="eyebrow"),
        element("h1", said),
        element("p", lead, class_="lead"),
        element("dl", tiles, class_="tiles"),
    )


def policies(sessions: Sequence[SessionComparison]) -> Html:
    found = sum_policies(sessions)
    floor = bound(session.floor for session in sessions)
    oracle = bound(session.oracle for session in sessions)
    said = (
        "The same calls at the same times, starting with an empty cache. "
        "Total cost, including summaries and refetches. "
        "Floor: every token is paid once. Oracle: clears results that are never used again."
    )
    return element(
        "section",
        element("h2", "Cost by policy"),
        element("p", said, class_="soft"),
        legend(found),
        bars(found, floor, oracle),
        element("div", _policy_table(found), class_="scroll"),
        _error_note(found),
        id="policies",
    )


def session_table(sessions: Sequence[SessionComparison], drawn: int) -> Html:
    """Every session; those with charts can be opened."""
    heads = ("Session", "Context", "Calls", "Baseline", "Cheapest", "", "Refetches / 100")
    rows = [_session_row(session, number, opens=number < drawn) for number, session in enumerate(sessions)]
    left = len(sessions) - drawn
    note = f"The {drawn:,} most expensive sessions have charts below; the other {left:,} do not."
    head = element("thead", element("tr", [element("th", name, scope="col") for name in heads]))
    return element(
        "section",
        element("h2", "Sessions"),
        element("p", note if left else "Select a session to see it below.", class_="soft"),
        element(
            "div", element("table", head, element("tbody", rows)), class_="scroll tall-table", tabindex=0
        ),
        id="sessions",
    )


def session_section(given: SessionComparison, number: int, chosen: str) -> Html:
    found = sum_policies([given])
    about = " · ".join(each for each in (given.model, *given.notes) if each)
    return element(
        "section",
        element("h2", given.name),
        element("p", about, class_="soft") if about else "",
        element("h3", "Cumulative cost by policy"),
        so_far(given, chosen),
        element("div", [_choice(each, baseline(found), chosen) for each in found], class_="policies"),
        _error_note(found),
        [_view(run, chosen) for run in given.runs],
        class_="session",
        data_number=number,
        hidden=number > 0,
    )


def _tile(name: str, value: str, *said: str) -> Html:
    return element("div", element("dt", name), element("dd", value, element("small", *said)), class_="tile")


def _hit(each: PolicyTotals) -> str:
    return f"{formatting.share(each.read, each.prompt)} read from the cache"


def _error_of(each: PolicyTotals) -> str:
    if each.policy != RECORDED:
        return ""
    if each.error is None:
        return "; no usage reported, error unknown"
    return f"; input {formatting.signed(each.error.input_dollars)} against reported usage"


def _error_note(found: Sequence[PolicyTotals]) -> Html | str:
    """The error of `recorded`, wherever that row is shown (RP-3)."""
    said = [describe_error(each.policy, each.error) for each in found if each.policy == RECORDED]
    return element("p", said[0], class_="soft") if said else ""


def _policy_table(found: Sequence[PolicyTotals]) -> Html:
    heads = (
        "Policy",
        "Dollars",
        "Error",
        "Saved",
        "Hit rate",
        "Breaks",
        "Peak",
        "Mean",
        "Compactions",
        "Refetches / 100",
        "Kept",
    )
    base = baseline(found)
    rows = [_policy_row(each, base) for each in in_order(found)]
    head = element("thead", element("tr", [element("th", name, scope="col") for name in heads]))
    return element("table", head, element("tbody", rows))


def _policy_row(each: PolicyTotals, base: PolicyTotals) -> Html:
    why = "; ".join(f"{count:,} × {reason}" for reason, count in each.breaks.items())
    saved = formatting.dollars(base.dollars - each.dollars) if each.policy != base.policy else "–"
    saved = "unfinished" if each.unfinished else saved
    cells = (
        each.policy,
        formatting.dollars(each.dollars),
        formatting.signed(each.error.input_dollars) if each.error else "–",
        saved.replace("$-", "−$"),
        formatting.share(each.read, each.prompt),
        element("span", f"{sum(each.breaks.values()):,}", title=why or "none"),
        formatting.tokens(each.peak),
        formatting.tokens(each.mean),
        f"{each.compactions:,}",
        each.refetches_per_100,
        formatting.share(each.kept, each.mattered),
    )
    return element("tr", [element("td", cell) for cell in cells])


def _session_row(given: SessionComparison, number: int, *, opens: bool) -> Html:
    found = sum_policies([given])
    base, best = baseline(found), cheapest(found)
    name = element("button", given.name, type="button", data_opens=str(number)) if opens else given.name
    cells = (
        name,
        _spark(given, base.policy),
        f"{base.calls:,}",
        formatting.dollars(base.dollars),
        f"{formatting.dollars(best.dollars)} {best.policy}",
        _saved(best, base),
        best.refetches_per_100,
    )
    return element(
        "tr", [element("td", cell) for cell in cells], aria_current="true" if number == 0 and opens else None
    )


def _saved(best: PolicyTotals, base: PolicyTotals) -> Html:
    kind = "better" if best.dollars < base.dollars else "soft"
    return element("span", formatting.change(best.dollars, base.dollars), class_=kind)


def _spark(given: SessionComparison, policy: str) -> Html:
    calls = next(run.calls for run in given.runs if run.policy == policy)
    if not calls:
        return element("div", class_="spark")
    every = max(1, len(calls) // 110)
    sizes = [call.context for call in calls[::every]]
    drawing = plot.svg(
        len(sizes), plot.steps(sizes, max(sizes, default=1), class_="read"), label="context over time"
    )
    return element("div", drawing, class_="spark")


def _choice(each: PolicyTotals, base: PolicyTotals, chosen: str) -> Html:
    change = (
        "" if each.policy == base.policy or each.unfinished else formatting.change(each.dollars, base.dollars)
    )
    said = "unfinished" if each.unfinished else change
    small = element("small", f"{formatting.dollars(each.dollars)} {said}".strip())
    pressed = "true" if each.policy == chosen else "false"
    return element("button", each.policy, small, type="button", data_policy=each.policy, aria_pressed=pressed)


def _view(run: ReplayRun, chosen: str) -> Html:
    ended = element("p", f"Ended early: {run.ended_early}", class_="worse") if run.ended_early else ""
    hint = element(
        "p", "Point at a call, or use the arrow keys, to see what happened and why.", class_="soft"
    )
    return element(
        "div",
        element("h3", f"Context over time under {run.policy}"),
        ended,
        swatches(_MARKS),
        figures(run),
        element("div", hint, class_="readout", aria_live="polite"),
        _events(run),
        json_script(_spelled(run.calls)),
        class_="view",
        data_policy=run.policy,
        hidden=run.policy != chosen,
    )


def _events(run: ReplayRun) -> Html | str:
    """Everything that changed the context or broke the cache, in order."""
    found = [(x, call, said) for x, call in enumerate(run.calls) for said in _happened(call)]
    if not found:
        return ""
    rows = [
        element(
            "tr",
            element("td", element("button", f"call {call.number}", type="button", data_call=str(x))),
            element("td", formatting.moment(call.at), class_="left"),
            element("td", said, class_="words"),
        )
        for x, call, said in found[:MAX_EVENTS]
    ]
    left = len(found) - MAX_EVENTS
    more = element("p", f"{left:,} more are not listed.", class_="soft") if left > 0 else ""
    table = element("div", element("table", element("tbody", rows)), class_="scroll tall-table", tabindex=0)
    return element("details", element("summary", f"What happened ({len(found):,})"), table, more)


def _happened(call: SimulatedCall) -> list[str]:
    said: list[str] = []
    if call.source == "compact":
        said.append(f"Compacted. {call.why}")
    elif call.cleared:
        said.append(f"{formatting.count(call.cleared, 'result')} cleared. {call.why}")
    if call.broke:
        said.append(f"The cache broke: {call.broke}")
    said.extend(f"Refetch: {_refetch(refetch)}" for refetch in call.refetches)
    return said


def _refetch(refetch: Refetch) -> str:
    size = formatting.tokens(refetch.tokens)
    return f"{refetch.kind} “{refetch.what}” had to be fetched again, {size} tokens"


def _spelled(calls: Sequence[SimulatedCall]) -> str:
    """The calls as short rows for the script; repeated texts are stored once."""
    words: dict[str, int] = {}

    def word(text: str) -> int:
        return words.setdefault(text, len(words)) if text else -1

    rows = [
        (
            call.number,
            formatting.moment(call.at),
            word(_CALLED.get(call.source, call.source)),
            call.read,
            written(call),
            call.plain,
            call.output,
            formatting.dollars(call.dollars),
            word(call.why),
            word(call.broke),
            [word(_refetch(refetch)) for refetch in call.refetches],
        )
        for call in calls
    ]
    return msgspec.json.encode({"calls": rows, "words": list(words)}).decode()
