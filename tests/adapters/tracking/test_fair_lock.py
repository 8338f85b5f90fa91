"""One at a time, in the order in which they asked, whoever is cancelled on the way."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from everturn.adapters.tracking.fair_lock import FairLock


def test_threads_take_turns():
    lock, inside, most = FairLock(), [], []

    def work(number):
        with lock.acquire():
            inside.append(number)
            most.append(len(inside))
            inside.remove(number)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(200)))
    assert (len(most), max(most)) == (200, 1)


async def test_tasks_take_turns_in_their_order():
    lock, order = FairLock(), []

    async def work(number):
        async with lock.acquire_async():
            await asyncio.sleep(0)
            order.append(number)

    await asyncio.gather(*map(work, range(20)))
    assert order == list(range(20))


async def test_a_task_waits_for_a_thread_without_holding_the_loop():
    lock, is_in, may_go = FairLock(), Event(), Event()

    def thread():
        with lock.acquire():
            is_in.set()
            may_go.wait()

    running = asyncio.create_task(asyncio.to_thread(thread))
    await asyncio.to_thread(is_in.wait)

    async def task():
        async with lock.acquire_async():
            return "in"

    waiting = asyncio.create_task(task())
    await asyncio.sleep(0)
    may_go.set()
    assert await waiting == "in"
    await running


@pytest.mark.parametrize("when", ["while it waits", "when it is its turn"])
async def test_who_is_cancelled_holds_up_nobody(when):
    lock, done = FairLock(), []

    async def work(number):
        async with lock.acquire_async():
            done.append(number)

    async with lock.acquire_async():
        first, second = asyncio.create_task(work(1)), asyncio.create_task(work(2))
        await asyncio.sleep(0)
        if when == "while it waits":
            first.cancel()
            await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait([first, second])
    assert done == [2]


async def test_an_error_inside_hands_the_turn_on():
    lock = FairLock()
    with pytest.raises(RuntimeError):
        async with lock.acquire_async():
            raise RuntimeError
    with lock.acquire():
        assert lock is not None
