"""A flow whose steps are calls, taken with or without awaits: it is written once and runs under both."""

from collections.abc import Awaitable, Callable, Generator
from typing import Any, TypeVar

T = TypeVar("T")
CallFlow = Generator[Callable[[], Any], Any, T]


def run_call_flow(steps: CallFlow[T]) -> T:
    """Each step is called; what it raises is raised where it was asked for."""
    try:
        step = next(steps)
        while True:
            try:
                value = step()
            except Exception as problem:
                step = steps.throw(problem)
            else:
                step = steps.send(value)
    except StopIteration as done:
        return done.value


async def run_call_flow_async(steps: CallFlow[T]) -> T:
    """The same, where each step gives something to wait for."""
    try:
        step: Callable[[], Awaitable[Any]] = next(steps)
        while True:
            try:
                value = await step()
            except Exception as problem:
                step = steps.throw(problem)
            else:
                step = steps.send(value)
    except StopIteration as done:
        return done.value
