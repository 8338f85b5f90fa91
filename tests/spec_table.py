"""Which requirements the tests hold: the table at the end of a run, and `build/spec.json`.

A requirement is covered when at least one test marked with its id ran and every marked test that ran
passed. The list of all ids is `docs/requirements.md`; an id that is not in it fails the marked test. The
ids travel in `user_properties`, so the table is the same when xdist spreads the tests over processes.
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

REQUIREMENT_LINE = re.compile(r"^- \*\*([A-Z]+-\d+)\*\* \S", re.MULTILINE)
NARROWEST, WIDEST = 60, 100

Outcome = Literal["passed", "failed", "skipped"]
State = Literal["covered", "failing", "skipped", "untested"]


@dataclass(frozen=True, slots=True)
class Row:
    """One chapter: its requirement ids in the order of the document, each with its state."""

    chapter: str
    states: tuple[tuple[str, State], ...]

    def ids(self, state: State) -> list[str]:
        return [name for name, its in self.states if its == state]


def read_ids(page: Path) -> tuple[str, ...]:
    return tuple(REQUIREMENT_LINE.findall(page.read_text(encoding="utf-8"))) if page.exists() else ()


def state_of(outcomes: Collection[Outcome]) -> State:
    if not outcomes:
        return "untested"
    if "failed" in outcomes:
        return "failing"
    return "covered" if "passed" in outcomes else "skipped"


def chapters(ids: Iterable[str], outcomes: dict[str, set[Outcome]]) -> tuple[Row, ...]:
    by_chapter: dict[str, list[tuple[str, State]]] = defaultdict(list)
    for name in ids:
        by_chapter[name.split("-")[0]].append((name, state_of(outcomes.get(name, set()))))
    return tuple(Row(chapter, tuple(states)) for chapter, states in by_chapter.items())


def draw(rows: Collection[Row], width: int) -> str:
    lines = [line for row in rows for line in _draw_row(row, width)]
    covered = sum(len(row.ids("covered")) for row in rows)
    return "\n".join([*lines, f"all  {covered:>3}/{sum(len(row.states) for row in rows)}"])


def _draw_row(row: Row, width: int) -> list[str]:
    head = f"{row.chapter:<4} {len(row.ids('covered')):>3}/{len(row.states)}".ljust(12)
    words = row.ids("untested")
    for state in ("skipped", "failing"):
        words += [f"{name}({state})" for name in row.ids(state)]
    body = " ".join(words)
    if not body:
        return [head.rstrip()]
    return textwrap.wrap(
        body,
        width,
        initial_indent=head + " ",
        subsequent_indent=" " * (len(head) + 1),
        break_on_hyphens=False,
        break_long_words=False,
    )


def summary(rows: Iterable[Row]) -> dict[str, list[str]]:
    states = [pair for row in rows for pair in row.states]
    return {
        "covered": [name for name, state in states if state == "covered"],
        "not_covered": [name for name, state in states if state != "covered"],
    }


def outcome_of(report: pytest.TestReport) -> Outcome | None:
    """What one phase says about the test; None when it says nothing yet (a set-up that went well)."""
    if report.failed or hasattr(report, "wasxfail"):
        return "failed"  # a test that is expected to fail holds nothing
    if report.skipped:
        return "skipped"
    return "passed" if report.when == "call" else None


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
        for key, name in report.user_properties:
            if key == "spec" and outcome:
                self.outcomes[str(name)].add(outcome)

    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config
    ) -> None:
        if not self.ids:
            return
        rows = chapters(self.ids, self.outcomes)
        finished = exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
        if whole_suite(config) and finished and not _stopped_early(terminalreporter, config):
            self._report_all(terminalreporter, rows, config.rootpath / "build" / "spec.json")
        elif held := summary(rows)["covered"]:
            terminalreporter.write_line(f"partial run, build/spec.json not written; held: {' '.join(held)}")

    def _report_all(self, terminal: pytest.TerminalReporter, rows: tuple[Row, ...], target: Path) -> None:
        target.parent.mkdir(exist_ok=True)
        target.write_text(json.dumps(summary(rows), indent=1) + "\n", encoding="utf-8")
        terminal.section("requirements held by tests (then: not yet)", sep="-")
        terminal.write_line(draw(rows, min(max(terminal._tw.fullwidth, NARROWEST), WIDEST)))


def _marked(item: pytest.Item) -> list[str]:
    return [str(name) for mark in item.iter_markers("spec") for name in mark.args]


def _stopped_early(terminal: pytest.TerminalReporter, config: pytest.Config) -> bool:
    failures = len(terminal.stats.get("failed", [])) + len(terminal.stats.get("error", []))
    return bool(config.getoption("maxfail")) and failures >= config.getoption("maxfail")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(
        SpecTable(read_ids(config.rootpath / "docs" / "requirements.md")), "everturn-spec-table"
    )
