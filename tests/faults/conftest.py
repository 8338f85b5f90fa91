"""How many trials there were, printed at the end of a run: a number says little without its denominator."""

import os

import pytest

KEY = "trials"


@pytest.fixture
def is_soak() -> bool:
    return os.environ.get("EVERTURN_PROFILE") == "soak"


def pytest_terminal_summary(terminalreporter):
    passed = terminalreporter.stats.get("passed", [])
    lines = [text for report in passed for name, text in report.user_properties if name == KEY]
    if lines:
        terminalreporter.section("fault trials")
        terminalreporter.write_line("\n".join(lines))
