"""How many trials there were, printed at the end of a run: a number says little without its denominator.

A plugin and no conftest of a folder: with several workers, those are loaded by the workers alone.
"""

from typing import Any

import msgspec
from reliability.score import Row, added, said

# Names of properties that tests record: lines as they are, and counted trials with their first seed.
FAULTS = "trials"
RELIABILITY = "reliability"


def pytest_terminal_summary(terminalreporter: Any) -> None:
    passed = terminalreporter.stats.get("passed", [])
    told = [(name, text) for report in passed for name, text in report.user_properties]
    if lines := [text for name, text in told if name == FAULTS]:
        terminalreporter.section("fault trials")
        terminalreporter.write_line("\n".join(lines))
    if counted := [text for name, text in told if name == RELIABILITY]:
        terminalreporter.section("reliability trials")
        terminalreporter.write_line("\n".join(_summed(counted)))


def _summed(counted: list[str]) -> list[str]:
    rows: dict[str, list[tuple[int, Row]]] = {}
    for first, row in (msgspec.json.decode(text, type=tuple[int, Row]) for text in counted):
        rows.setdefault(row.kind, []).append((first, row))
    return [
        said(added([row for _, row in found]), f"seeds from {min(first for first, _ in found)}")
        for found in rows.values()
    ]
