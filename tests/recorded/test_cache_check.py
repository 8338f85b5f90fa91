"""The prefix cache beside the usage that real sessions reported."""

import re
from pathlib import Path

import pytest

from everturn.replay.cache_check import CacheCheck, check_folder, render_table

REPO = Path(__file__).parents[2]
DATA = REPO.parent / "shared" / "data" / "claude-code"

pytestmark = pytest.mark.skipif(
    not DATA.is_dir(), reason="the recorded sessions (../shared/data) are not here"
)


@pytest.fixture(scope="module")
def results() -> list[CacheCheck]:
    return list(check_folder(DATA))


def test_cache_reads_of_real_sessions_are_predicted_within_5_percent_on_95_of_100_calls(
    results: list[CacheCheck],
) -> None:
    near = sum(result.error <= 0.05 for result in results)
    assert len(results) > 3_000
    assert near / len(results) > 0.95


def test_the_manual_shows_what_the_command_prints(results: list[CacheCheck]) -> None:
    page = (REPO / "docs" / "prefix-cache.md").read_text(encoding="utf-8")
    shown = re.search(r"<!-- cache_check -->\n(.*?)\n<!-- /cache_check -->", page, re.DOTALL)
    assert shown is not None
    assert shown[1].splitlines() == render_table(results)
