"""Flows that yield calls: written once, run by a sync or an async driver."""

from collections.abc import Awaitable, Callable, Generator
from typing import Any, TypeVar

T = TypeVar("T")
CallFlow = Generator[Callable[[], Any], Any, T]


def run_call_flow(steps: CallFlow[T]) -> T:
    """Call each step and send its result back. An error of a step is raised inside the flow, an
    interrupt or a cancellation too."""
    try:
        step = next(steps)
        while True:
            try:
                value = step()
            except BaseException as problem:
                step = steps.throw(problem)
            else:
                step = steps.send(value)
    except StopIteration as done:
        return done.value


async def run_call_flow_async(steps: CallFlow[T]) -> T:
    """The same for steps that return awaitables."""
    try:
        step: Callable[[], Awaitable[Any]] = next(steps)
        while True:
            try:
                value = await step()
            except BaseException as problem:
                step = steps.throw(problem)
            else:
                step = steps.send(value)
    except StopIteration as done:
        return done.value
