"""The stream of events: told from any thread, never waiting for a slow page, ended with the server."""

import asyncio
import threading

from everturn.web_dashboard.events import EventHub


async def test_what_another_thread_publishes_reaches_every_page():
    hub = EventHub()
    pages = [hub.stream(), hub.stream()]
    assert [await anext(page) for page in pages] == [b"retry: 2000\n\n"] * 2
    waiting = [asyncio.ensure_future(anext(page)) for page in pages]
    await asyncio.sleep(0)
    teller = threading.Thread(target=hub.publish, args=("changed", {"sessions": ["a\nb"]}))
    teller.start()
    said = b'event: changed\ndata: {"sessions":["a\\nb"]}\n\n'
    assert [await each for each in waiting] == [said, said]
    teller.join()


async def test_a_page_that_does_not_listen_loses_the_oldest_events():
    hub = EventHub()
    page = hub.stream()
    await anext(page)
    first = asyncio.ensure_future(anext(page))
    await asyncio.sleep(0)
    for number in range(250):
        hub.publish("progress", {"done": number})
    await asyncio.sleep(0)
    rest = [await first]
    while b'"done":249' not in rest[-1]:
        rest.append(await anext(page))
    assert len(rest) <= 101


async def test_closing_ends_the_streams_and_nobody_listening_is_no_error():
    hub = EventHub()
    hub.publish("changed", {})
    page = hub.stream()
    await anext(page)
    last = asyncio.ensure_future(anext(page, None))
    await asyncio.sleep(0)
    hub.close()
    assert await last is None
