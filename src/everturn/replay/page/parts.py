"""The parts of the page from the top down: headline, policies, table of sessions, one section per session."""

from collections.abc import Collection, Sequence
from typing import Final

import msgspec

from everturn.replay.compare import (
    LIMITS,
    ComparisonRow,
    ComparisonTable,
    Saving,
    describe_guesses,
    describe_saving,
    make_headline,
    why_not_in_headline,
)
from everturn.replay.page import formatting, plot
from everturn.replay.page.cost_figures import bars, legend, so_far
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
from everturn.replay.reported import describe_errors, describe_paid, short_errors
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


def headline(sessions: Sequence[SessionComparison], compared: ComparisonTable) -> Html:
    """Names a policy only if it keeps what must be kept (RP-15)."""
    found = sum_policies(sessions)
    base = baseline(found)
    calls = formatting.count(max(each.calls for each in found), "call")
    lead = f"{formatting.count(compared.sessions, 'session')}, {calls}, replayed under "
    lead += f"{formatting.count(len(found), 'policy')}. ".replace("policys", "policies")
    lead += "Computed locally from the recordings, without calling a model."
    tiles = [
        _tile(f"Cost under {base.policy}", formatting.dollars(base.dollars), _hit(base), _error_of(base)),
        _tile("Largest context", formatting.tokens(base.peak), f"tokens under {base.policy}"),
    ]
    clairvoyant = bound(session.clairvoyant for session in sessions)
    if clairvoyant is not None:
        tiles.append(_tile("Clairvoyant", formatting.dollars(clairvoyant), "if the future were known"))
    floor = bound(session.floor for session in sessions)
    if floor is not None:
        tiles.append(_tile("Floor", formatting.dollars(floor), "no policy can cost less"))
    return element(
        "header",
        element("div", "everturn replay", class_="eyebrow"),
        element("h1", formatting.signed(make_headline(compared))),
        element("p", lead, class_="lead"),
        element("dl", tiles, class_="tiles"),
    )


def policies(sessions: Sequence[SessionComparison], compared: ComparisonTable) -> Html:
    found = sum_policies(sessions)
    floor = bound(session.floor for session in sessions)
    clairvoyant = bound(session.clairvoyant for session in sessions)
    said = (
        "The same calls at the same times. Total cost, including summaries and refetches. "
        "Saved: positive is cheaper, on the calls that both made, with a 95% interval over the sessions. "
        "Floor: every token is paid once, system prompt and tools are read on every call. Clairvoyant: the "
        "cheapest resets and holds, if the future were known."
    )
    return element(
        "section",
        element("h2", "Cost by policy"),
        element("p", said, class_="soft"),
        legend(found),
        bars(found, floor, clairvoyant, _savings(found, compared)),
        element("div", _policy_table(found, compared), class_="scroll"),
        _error_note(found),
        explanations(compared),
        id="policies",
    )


def explanations(compared: ComparisonTable) -> tuple[Html | str, ...]:
    """Why the dollars are not those that the files report, and what was assumed."""
    return _paid_note(compared), _notes(compared)


def session_table(sessions: Sequence[SessionComparison], compared: ComparisonTable, drawn: int) -> Html:
    """Every session; those with charts can be opened. As in a headline, only policies that keep what must be
    kept over all sessions are called the cheapest.
    """
    named = {row.policy for row in compared.rows if not why_not_in_headline(row)}
    rows = [
        _session_row(session, number, named, opens=number < drawn) for number, session in enumerate(sessions)
    ]
    left = len(sessions) - drawn
    note = f"The {drawn:,} most expensive sessions have charts below; the other {left:,} do not."
    limits = f"Cheapest: of the policies with {LIMITS}."
    if (empty := compared.sessions - len(sessions)) > 0:
        limits += f" Not listed, because no call was replayed: {formatting.count(empty, 'session')}."
    table = element("table", _head_row(_SESSION_HEADS), element("tbody", rows), class_="cards")
    return element(
        "section",
        element("h2", "Sessions"),
        element("p", note if left else "Select a session to see it below.", " ", limits, class_="soft"),
        element("div", table, class_="scroll tall-table", tabindex=0),
        id="sessions",
    )


def session_section(given: SessionComparison, number: int, chosen: str) -> Html:
    found = sum_policies([given])
    began = f"{given.began:%Y-%m-%d %H:%M %Z}" if given.began else ""
    name = given.name if given.name != given.title else ""
    about = " · ".join(each for each in (name, began, given.model, *given.notes) if each)
    return element(
        "section",
        element("h2", given.title or given.name),
        element("p", about, class_="soft") if about else "",
        element("h3", "Cumulative cost by policy"),
        so_far(given, chosen),
        element("div", [_choice(each, baseline(found), chosen) for each in found], class_="policies"),
        _error_note(found),
        [_view(run, number, chosen) for run in given.runs],
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
    return f"; input {_errors(each)} against reported usage (predicted / with cache events)"


def _errors(each: PolicyTotals) -> str:
    return formatting.signed(short_errors(each.error)) if each.error else "–"


def _error_note(found: Sequence[PolicyTotals]) -> Html | str:
    """The error of `recorded`, wherever that row is shown (RP-3)."""
    said = [describe_errors(each.policy, each.error) for each in found if each.policy == RECORDED]
    return element("p", said[0], class_="soft") if said else ""


def _paid_note(compared: ComparisonTable) -> Html | str:
    """What the files say was paid, beside what replay computes (RP-13)."""
    said = [describe_paid(row.paid, compared.sessions) for row in compared.rows if row.paid is not None]
    return element("p", said[0], class_="soft") if said else ""


def _savings(found: Sequence[PolicyTotals], compared: ComparisonTable) -> dict[str, Saving]:
    """Against the baseline, by policy: the figures of the table."""
    against = {
        row.policy: row.against_recorded if baseline(found).policy == RECORDED else row.against_none
        for row in compared.rows
    }
    return {policy: saved for policy, saved in against.items() if saved is not None}


def _notes(compared: ComparisonTable) -> Html | str:
    """What was assumed and left out: models without a known price, snapshots (RP-17)."""
    said = [each for each in (describe_guesses(compared), *compared.notes) if each]
    if not said:
        return ""
    listed = element("ul", [element("li", each) for each in said])
    return element("details", element("summary", f"Assumptions ({len(said):,})"), listed, class_="soft")


_POLICY_HEADS: Final = (
    "Policy", "Dollars", "Error", "Saved against recorded", "Words kept", "Hit rate", "Breaks", "Peak",
    "Mean", "Compactions", "Refetches / 100",
)  # fmt: skip
_SESSION_HEADS: Final = (
    "Session", "Began", "Context", "Calls", "Baseline", "Cheapest", "Saved", "Refetches / 100",
)  # fmt: skip


def _policy_table(found: Sequence[PolicyTotals], compared: ComparisonTable) -> Html:
    by_name = {row.policy: row for row in compared.rows}
    rows = [_policy_row(each, by_name.get(each.policy)) for each in in_order(found)]
    return element("table", _head_row(_POLICY_HEADS), element("tbody", rows), class_="cards")


def _head_row(heads: Sequence[str]) -> Html:
    return element("thead", element("tr", [element("th", name, scope="col") for name in heads]))


def _cells(heads: Sequence[str], cells: Sequence[str]) -> list[Html]:
    """Each cell with its heading: on a phone a row is a list, without columns that could be cut off."""
    return [
        element("td", element("span", cell), data_head=head) for head, cell in zip(heads, cells, strict=True)
    ]


def _policy_row(each: PolicyTotals, row: ComparisonRow | None) -> Html:
    why = "; ".join(f"{count:,} × {reason}" for reason, count in each.breaks.items())
    against = row.against_recorded if row is not None and each.policy != RECORDED else None
    words = row.left.get("user_instructions") if row is not None else None
    cells = (
        each.policy + (" (unfinished)" if each.unfinished else ""),
        formatting.dollars(each.dollars),
        _errors(each),
        formatting.signed(describe_saving(against)) if against is not None and against.of else "–",
        formatting.share(words.kept, words.total) if words is not None else "–",
        formatting.share(each.read, each.prompt),
        element("span", f"{sum(each.breaks.values()):,}", title=why or "none"),
        formatting.tokens(each.peak),
        formatting.tokens(each.mean),
        f"{each.compactions:,}",
        each.refetches_per_100,
    )
    return element("tr", _cells(_POLICY_HEADS, cells))


def _session_row(given: SessionComparison, number: int, named: Collection[str], *, opens: bool) -> Html:
    found = sum_policies([given])
    base = baseline(found)
    best = cheapest([each for each in found if each.policy in named or each.policy == base.policy])
    called = given.title or given.name
    name = element("button", called, type="button", data_opens=str(number)) if opens else called
    cells = (
        element("span", name, title=given.path or given.name),
        f"{given.began:%Y-%m-%d %H:%M}" if given.began else "–",
        _spark(given, base.policy),
        f"{base.calls:,}",
        formatting.dollars(base.dollars),
        f"{formatting.dollars(best.dollars)} {best.policy}",
        _saved(best, base),
        best.refetches_per_100,
    )
    is_open = number == 0 and opens
    return element("tr", _cells(_SESSION_HEADS, cells), aria_current="true" if is_open else None)


def _saved(best: PolicyTotals, base: PolicyTotals) -> Html:
    kind = "better" if best.dollars < base.dollars else "soft"
    return element("span", formatting.saving(best.dollars, base.dollars), class_=kind)


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
        "" if each.policy == base.policy or each.unfinished else formatting.saving(each.dollars, base.dollars)
    )
    said = "unfinished" if each.unfinished else change
    small = element("small", f"{formatting.dollars(each.dollars)} {said}".strip())
    pressed = "true" if each.policy == chosen else "false"
    return element("button", each.policy, small, type="button", data_policy=each.policy, aria_pressed=pressed)


def _view(run: ReplayRun, session: int, chosen: str) -> Html:
    ended = element("p", f"Ended early: {run.ended_early}", class_="worse") if run.ended_early else ""
    hint = element(
        "p", "Point at a call, or use the arrow keys, to see what happened and why.", class_="soft"
    )
    return element(
        "div",
        element("h3", f"Context over time under {run.policy}"),
        ended,
        plot.swatches(_MARKS),
        hint,
        figures(run),
        element("div", class_="readout", aria_live="polite", hidden=True),
        _events(run, session),
        json_script(_spelled(run.calls)),
        class_="view",
        data_policy=run.policy,
        hidden=run.policy != chosen,
    )


def _events(run: ReplayRun, session: int) -> Html | str:
    """Everything that changed the context or broke the cache, in order."""
    found = [(x, call, said) for x, call in enumerate(run.calls) for said in _happened(call)]
    if not found:
        return ""
    rows = [
        element(
            "tr",
            element("td", element("a", f"call {call.number}", href=f"#{session}/{run.policy}/{x}")),
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
    tier = "certain" if refetch.tier == 1 else "probable"
    kind = refetch.kind.replace("_", " ")
    return f"{kind} “{refetch.what}” had to be fetched again, {size} tokens ({tier})"


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
