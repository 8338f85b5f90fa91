"""One flow, with and without awaits."""

import pytest

from everturn.adapters.langchain.call_flow import run_call_flow, run_call_flow_async


def flow(step, broken):
    first = yield step
    try:
        yield broken
    except ValueError as problem:
        second = yield step
        return first, str(problem), second


def works():
    return 1


def breaks():
    raise ValueError("broken")


async def works_async():
    return 1


async def breaks_async():
    raise ValueError("broken")


def test_what_a_step_raises_is_raised_where_it_was_asked_for():
    assert run_call_flow(flow(works, breaks)) == (1, "broken", 1)


async def test_and_so_with_awaits():
    assert await run_call_flow_async(flow(works_async, breaks_async)) == (1, "broken", 1)


def test_what_a_flow_does_not_catch_is_its_callers():
    with pytest.raises(ValueError, match="broken"):
        run_call_flow(flow(breaks, breaks))
