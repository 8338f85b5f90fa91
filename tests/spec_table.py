"""Which requirements the tests hold: the table at the end of a run, and `build/spec.json`.

A requirement is held when no test marked with its id failed, and one that passed entered a public surface
(`surface_watch.py`). It is held only inside when none of them did. The list of all ids is
`docs/requirements.md`; an id that is not in it fails the marked test. Ids and surfaces travel in
`user_properties`, so the table is the same when xdist spreads the tests over processes.
"""

import json
import re
import textwrap
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
from surface_watch import PROPERTY as SURFACE

REQUIREMENT_LINE = re.compile(r"^- \*\*([A-Z]+-\d+)\*\* \S", re.MULTILINE)
MIN_WIDTH, MAX_WIDTH = 60, 100
# The twin answers most tests as the provider. It is a surface of its own requirements only.
TWIN_IDS = re.compile(r"TW-\d+|BY-1")

# "inside": passed, without a public surface.
Outcome = Literal["passed", "inside", "failed", "skipped"]
State = Literal["held", "only_inside", "failing", "skipped", "untested"]


@dataclass(frozen=True, slots=True)
class Row:
    """One chapter: its requirement ids in the order of the document, each with its state."""

    chapter: str
    states: tuple[tuple[str, State], ...]

    def ids(self, *states: State) -> list[str]:
        return [name for name, its in self.states if its in states]

    def not_held(self) -> list[str]:
        return self.ids("failing", "skipped", "untested")


def read_ids(page: Path) -> tuple[str, ...]:
    return tuple(REQUIREMENT_LINE.findall(page.read_text(encoding="utf-8"))) if page.exists() else ()


def state_of(outcomes: Collection[Outcome]) -> State:
    if not outcomes:
        return "untested"
    if "failed" in outcomes:
        return "failing"
    if "passed" in outcomes:
        return "held"
    return "only_inside" if "inside" in outcomes else "skipped"


def chapters(ids: Iterable[str], outcomes: dict[str, set[Outcome]]) -> tuple[Row, ...]:
    by_chapter: dict[str, list[tuple[str, State]]] = defaultdict(list)
    for name in ids:
        by_chapter[name.split("-")[0]].append((name, state_of(outcomes.get(name, set()))))
    return tuple(Row(chapter, tuple(states)) for chapter, states in by_chapter.items())


def draw(rows: Collection[Row], width: int) -> str:
    """One line for each chapter with its three numbers, then the ids that are not held."""
    drawn = ["      held  only inside  not held"]
    drawn += [line for row in rows for line in _draw_row(row, width)]
    everything = Row("all", tuple(pair for row in rows for pair in row.states))
    return "\n".join([*drawn, _counts(everything)])


def _counts(row: Row) -> str:
    held, inside, missing = row.ids("held"), row.ids("only_inside"), row.not_held()
    return f"{row.chapter:<4} {len(held):>5} {len(inside):>12} {len(missing):>9}"


def _draw_row(row: Row, width: int) -> list[str]:
    states = dict(row.states)
    marks: dict[State, str] = {"failing": "(failing)", "skipped": "(skipped)"}
    missing = [name + marks.get(states[name], "") for name in row.not_held()]
    parts = [["only inside:", *row.ids("only_inside")], ["not held:", *missing]]
    body = " ".join(" ".join(part) for part in parts if len(part) > 1)
    if not body:
        return [_counts(row)]
    head = _counts(row) + "  "
    return textwrap.wrap(
        body,
        width,
        initial_indent=head,
        subsequent_indent=" " * len(head),
        break_on_hyphens=False,
        break_long_words=False,
    )


def summary(rows: Iterable[Row]) -> dict[str, list[str]]:
    everything = Row("all", tuple(pair for row in rows for pair in row.states))
    return {
        "held": everything.ids("held"),
        "only_inside": everything.ids("only_inside"),
        "not_held": everything.not_held(),
    }


def outcome_of(report: pytest.TestReport) -> Outcome | None:
    """What one phase says about the test; None when it says nothing yet (a set-up that went well)."""
    if report.failed or hasattr(report, "wasxfail"):
        return "failed"  # a test that is expected to fail holds nothing
    if report.skipped:
        return "skipped"
    return "passed" if report.when == "call" else None


def counts_for(name: str, surfaces: Collection[str]) -> bool:
    """Whether a test that entered these surfaces reached this requirement as a person does."""
    return any(surface != "twin" or TWIN_IDS.fullmatch(name) for surface in surfaces)


def whole_suite(config: pytest.Config) -> bool:
    named = [Path(arg).resolve() for arg in config.args]
    everything = [(config.rootpath / path).resolve() for path in config.getini("testpaths")]
    narrowing = ("keyword", "markexpr", "deselect", "ignore", "ignore_glob", "lf", "collectonly")
    return named == everything and not any(config.getoption(name, default=None) for name in narrowing)


class SpecTable:
    def __init__(self, ids: tuple[str, ...]) -> None:
        self.ids = ids
        self.outcomes: dict[str, set[Outcome]] = defaultdict(set)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            item.user_properties.extend(("spec", name) for name in _marked(item))

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        unknown = sorted(set(_marked(item)) - set(self.ids))
        if unknown:
            pytest.fail(
                f"spec mark with unknown id {', '.join(unknown)}: not in docs/requirements.md", pytrace=False
            )

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        outcome = outcome_of(report)
        surfaces = [str(name) for key, name in report.user_properties if key == SURFACE]
        for name in (str(name) for key, name in report.user_properties if key == "spec"):
            if outcome == "passed" and not counts_for(name, surfaces):
                self.outcomes[name].add("inside")
            elif outcome:
                self.outcomes[name].add(outcome)

    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config
    ) -> None:
        if not self.ids:
            return
        rows = chapters(self.ids, self.outcomes)
        finished = exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
        if whole_suite(config) and finished and not _stopped_early(terminalreporter, config):
            self._report_all(terminalreporter, rows, config.rootpath / "build" / "spec.json")
        elif said := _partial(summary(rows)):
            terminalreporter.write_line(f"partial run, build/spec.json not written; {said}")

    def _report_all(self, terminal: pytest.TerminalReporter, rows: tuple[Row, ...], target: Path) -> None:
        target.parent.mkdir(exist_ok=True)
        target.write_text(json.dumps(summary(rows), indent=1) + "\n", encoding="utf-8")
        terminal.section("requirements held by tests", sep="-")
        terminal.write_line(draw(rows, min(max(terminal._tw.fullwidth, MIN_WIDTH), MAX_WIDTH)))


def _partial(lists: dict[str, list[str]]) -> str:
    words = {"held": lists["held"], "only inside": lists["only_inside"]}
    return "; ".join(f"{what}: {' '.join(names)}" for what, names in words.items() if names)


def _marked(item: pytest.Item) -> list[str]:
    return [str(name) for mark in item.iter_markers("spec") for name in mark.args]


def _stopped_early(terminal: pytest.TerminalReporter, config: pytest.Config) -> bool:
    failures = len(terminal.stats.get("failed", [])) + len(terminal.stats.get("error", []))
    return bool(config.getoption("maxfail")) and failures >= config.getoption("maxfail")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(
        SpecTable(read_ids(config.rootpath / "docs" / "requirements.md")), "everturn-spec-table"
    )
