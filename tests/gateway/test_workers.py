"""The threads that requests and replies are recorded in."""

import asyncio
from threading import Event, current_thread

import pytest

from everturn.gateway.workers import WorkerThreads


async def test_the_thread_that_was_free_last_does_the_next_work():
    workers = WorkerThreads(8, "test")
    names = {await workers.run(lambda: current_thread().name) for _ in range(20)}
    assert names == {"test-1"}
    await workers.close()


async def test_more_work_than_threads_waits_and_is_done_in_order():
    workers, done, may_go = WorkerThreads(2, "test"), list[int](), Event()

    def work(at: int) -> int:
        may_go.wait(5)
        done.append(at)
        return at

    async def run(at: int) -> int:
        return await workers.run(lambda: work(at))

    tasks = [asyncio.create_task(run(at)) for at in range(6)]
    await asyncio.sleep(0.02)
    # Nobody waits for this one any more, and it has not begun.
    tasks[4].cancel()
    await asyncio.sleep(0)
    may_go.set()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert [each for each in found if isinstance(each, int)] == [0, 1, 2, 3, 5]
    assert sorted(done) == [0, 1, 2, 3, 5]
    await workers.close()


async def test_an_error_reaches_whoever_waits_and_the_thread_goes_on():
    workers = WorkerThreads(1, "test")
    with pytest.raises(ZeroDivisionError):
        await workers.run(lambda: 1 // 0)
    assert await workers.run(lambda: "next") == "next"
    await workers.close()


async def test_closing_waits_for_work_that_nobody_waits_for():
    workers, may_go, done = WorkerThreads(4, "test"), Event(), list[str]()

    def work() -> None:
        may_go.wait(5)
        done.append("recorded")

    task = asyncio.create_task(workers.run(work))
    await asyncio.sleep(0.02)
    task.cancel()
    closing = asyncio.create_task(workers.close())
    await asyncio.sleep(0.02)
    assert (done, closing.done()) == ([], False)
    may_go.set()
    await asyncio.wait_for(closing, 5)
    assert done == ["recorded"]
