"""Every recorded file is read, and what is in it is held in numbers."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from message_rules import find_message_problems

from everturn.replay.cache_breaks import find_cache_breaks
from everturn.replay.calls import iter_calls
from everturn.replay.sessions import ReplaySession, Unreadable, read_sessions

DATA = Path(__file__).parents[3] / "shared" / "data"

pytestmark = pytest.mark.skipif(
    not DATA.is_dir(), reason="the recorded sessions (../shared/data) are not here"
)

# Sessions, threads, calls, calls with usage, tool calls and results, by format.
HELD = {
    "aider": (36, 36, 164, 164, 0, 0),
    "claude-code": (76, 95, 3_509, 3_509, 3_605, 3_599),
    "codex-terminal": (1, 1, 3, 0, 0, 0),
    "gemini-cli": (3, 3, 16, 16, 12, 12),
    "mini-swe-agent": (23, 23, 1_726, 1_714, 1_643, 1_643),
    "openhands": (4, 4, 125, 125, 125, 122),
    "pi": (1, 1, 439, 439, 391, 373),
    "swe-agent": (7, 7, 84, 0, 79, 79),
    "tau-bench": (200, 200, 2_454, 0, 1_164, 1_164),
}


@pytest.fixture(scope="module")
def found() -> list[ReplaySession | Unreadable]:
    return [*read_sessions([DATA])]


@pytest.mark.spec("RP-1")
def test_every_recorded_file_is_read_and_only_the_pages_about_them_are_not(found):
    unread = {each.path: each.why for each in found if isinstance(each, Unreadable)}
    assert unread == {
        str(DATA / name): "unknown format" for name in ("FORMATS.md", "README.md", "manifest.json")
    }


@pytest.mark.spec("RP-1", "RP-2")
def test_what_is_in_them_is_held_in_numbers(found):
    count: dict[str, Counter[str]] = {}
    for session in _read(found):
        count.setdefault(session.format, Counter()).update(_figures(session))
    names = ("sessions", "threads", "calls", "with usage", "made", "answered")
    assert {format: tuple(each[name] for name in names) for format, each in count.items()} == HELD


def _read(found: list[ReplaySession | Unreadable]) -> Iterator[ReplaySession]:
    return (each for each in found if isinstance(each, ReplaySession))


def _figures(session: ReplaySession) -> Counter[str]:
    count = Counter({"sessions": 1, "threads": len(session.threads)})
    for thread in session.threads:
        every = [*iter_calls(thread, "all")]
        count["calls"] += len(every)
        count["with usage"] += sum(call.usage.context > 0 for call in every)
        blocks = [block for record in thread.records for block in record.blocks]
        count["made"] += sum(block.is_call for block in blocks)
        count["answered"] += sum(block.is_result for block in blocks)
    return count


@pytest.mark.spec("RP-2")
def test_every_call_has_a_time(found):
    untimed = [
        (session.path, call.number)
        for session in _read(found)
        for thread in session.threads
        for call in iter_calls(thread, "all")
        if call.at is None
    ]
    assert untimed == []


def test_the_view_at_calls_of_other_agents_is_one_that_the_api_takes(found):
    """Claude Code's own are held call by call in `test_sessions.py`; here every tenth call and the last."""
    wrong = []
    for session in _read(found):
        if session.format == "claude-code":
            continue
        for thread in session.threads:
            every = [*iter_calls(thread, "all")]
            wrong += [
                (session.path, call.number, find_message_problems(call.messages)[0])
                for call in (*every[::10], *every[-1:])
                if find_message_problems(call.messages)
            ]
    assert wrong == []


@pytest.mark.spec("RP-3")
def test_recorded_usage_agrees_with_the_model_of_the_cache_on_nine_of_ten_calls(found):
    judged = [find_cache_breaks(session) for session in _read(found)]
    calls = sum(each.calls for each in judged)
    assert calls > 3_500
    assert sum(each.near for each in judged) / calls >= 0.9
