"""What if: the same sessions under other policies, drawn as the replay page draws them (DB-8, DB-12)."""

from collections.abc import Sequence
from datetime import tzinfo

import msgspec

from everturn.replay.compare import Comparison, ComparisonTable
from everturn.replay.page import formatting, parts
from everturn.replay.page.markup import Html, element
from everturn.replay.page.session_comparison import (
    SessionComparison,
    by_cost,
    cheapest,
    how_many_are_drawn,
    sum_policies,
)
from everturn.web_dashboard.pages.layout import Shell, cost, empty, panel, render, void
from everturn.web_dashboard.queries import IndexedSession

_SWITCHES = "+1h: cache entries live for one hour; +refresh: they are kept alive in pauses"


class Chosen(msgspec.Struct, frozen=True):
    """What to compare: sessions, and policies as `everturn replay --policy` takes them."""

    sessions: Sequence[IndexedSession]
    policies: str
    offered: Sequence[str]


class Retry(msgspec.Struct, frozen=True):
    """What somebody chose, to be computed again: the ids of the sessions, and policies."""

    sessions: tuple[str, ...]
    policies: str


class Job(msgspec.Struct, frozen=True):
    """A comparison that is computed: how many files are done. `why` says what went wrong."""

    id: str
    done: int
    total: int
    why: str = ""
    retry: Retry | None = None


def choose_page(shell: Shell, chosen: Chosen, recent: Sequence[tuple[str, str]]) -> str:
    head = element(
        "div",
        element("h1", "What if"),
        element("p", "What these sessions would have cost under other policies.", class_="soft"),
        class_="page-head",
    )
    return render(shell, "What if", head, _form(shell, chosen), _recent(recent))


def job_page(shell: Shell, job: Job) -> str:
    bar = element("progress", value=job.done, max=max(1, job.total), aria_label="Replaying")
    said = f"Replaying: {job.done:,} of {formatting.count(job.total, 'file')}"
    failed = [element("p", "Not computed. ", job.why, class_="worse"), try_again(job.retry)]
    inside = failed if job.why else [element("p", said), bar]
    part = element("section", inside, data_live="job", data_job=job.id, role="status")
    back = element("p", element("a", "Choose again", href="/what-if"))
    return render(shell, "What if", element("div", element("h1", "What if"), class_="page-head"), part, back)


def try_again(retry: Retry | None) -> Html | str:
    """A button that sends the same choice again."""
    if retry is None:
        return ""
    names = [("session", each) for each in retry.sessions]
    names += [("policy", each.strip()) for each in retry.policies.split(",") if each.strip()]
    boxes = [
        void("input", type="checkbox", name_=name, value=value, checked=True, hidden=True)
        for name, value in names
    ]
    button = element("button", "Try again", type="submit", class_="button primary")
    return element("form", boxes, button, data_compare=True)


def result_page(
    shell: Shell,
    found: Sequence[SessionComparison],
    unreadable: Sequence[tuple[str, str]],
    retry: Retry | None = None,
) -> str:
    told = [each for each in found if any(run.totals.calls for run in each.runs)]
    if not told:
        said = "; ".join(f"{path}: {why}" for path, why in unreadable)
        back = element("p", element("a", "Choose again", href="/what-if"))
        return render(shell, "What if", element("h1", "What if"), empty("Nothing to replay", said), back)
    ordered, compared = [_in_zone(each, shell.zone) for each in by_cost(told)], _compare(told)
    drawn = how_many_are_drawn(ordered)
    chosen = cheapest(sum_policies(ordered)).policy
    left = [element("li", f"{path}: {why}") for path, why in unreadable]
    return render(
        shell,
        "What if",
        element(
            "div",
            parts.headline(ordered, compared),
            parts.policies(ordered, compared),
            parts.session_table(ordered, compared, drawn),
            [parts.session_section(each, number, chosen) for number, each in enumerate(ordered[:drawn])],
            panel("Left out", element("ul", left), try_again(retry)) if left else "",
            class_="report",
        ),
        wide=False,
    )


def _in_zone(each: SessionComparison, zone: tzinfo | None) -> SessionComparison:
    began = each.began.astimezone(zone) if each.began else None
    return msgspec.structs.replace(each, began=began)


def _compare(sessions: Sequence[SessionComparison]) -> ComparisonTable:
    """The table that `everturn replay` prints, with its intervals."""
    comparison = Comparison()
    for each in sessions:
        comparison.add(each.runs)
    return comparison.compared(list(dict.fromkeys(note for each in sessions for note in each.notes)))


def _form(shell: Shell, chosen: Chosen) -> Html:
    given = {each.strip() for each in chosen.policies.split(",")}
    boxes = [
        element(
            "label",
            void("input", type="checkbox", name_="policy", value=each, checked=each in given),
            element("span", each),
        )
        for each in chosen.offered
    ]
    rows = [
        element(
            "tr",
            element(
                "td",
                void(
                    "input", type="checkbox", name_="session", value=each.id, checked=at < 3,
                    aria_label=f"Compare {each.title}",
                ),
            ),
            element("td", element("span", each.title, class_="title"), class_="words", title=each.title),
            element("td", shell.moment(each.ended), class_="soft"),
            element("td", cost(each.nanos, each.unpriced), class_="number"),
        )
        for at, each in enumerate(chosen.sessions)
    ]  # fmt: skip
    table = element("div", element("table", element("tbody", rows)), class_="scroll tall-table", tabindex=0,
                    role="region", aria_label="Sessions to compare")  # fmt: skip
    legend = element("legend", "Policies", class_="hidden")
    nothing = element("p", "No session with calls is known yet.", class_="soft")
    return element(
        "form",
        panel("Policies", element("fieldset", legend, boxes, class_="boxes"), note=_SWITCHES),
        panel("Sessions", table if rows else nothing, note="the most expensive first"),
        element("button", "Compare", type="submit", class_="button primary"),
        class_="what-if",
        data_compare=True,
    )  # fmt: skip


def _recent(recent: Sequence[tuple[str, str]]) -> Html | str:
    if not recent:
        return ""
    links = [element("li", element("a", words, href=f"/what-if/{id}")) for id, words in recent]
    return panel("Computed before", element("ul", links, class_="plain-list"))
