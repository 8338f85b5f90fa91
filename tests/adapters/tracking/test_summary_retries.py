"""When a summary request is sent again."""

import asyncio
from types import SimpleNamespace

import pytest

from everturn.adapters.tracking import summary_retries
from everturn.adapters.tracking.summary_retries import (
    DEADLINE,
    MAX_RETRIES,
    RetryClock,
    SendError,
    make_send_error,
    parse_retry_after,
    plan_retry,
    retry,
    retry_async,
)
from everturn.errors import UpstreamError


def error(status, **more):
    return SendError(status, "error", "no", **more)


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
def test_an_error_that_passes_is_waited_for(status):
    assert [plan_retry(error(status), retries, 0, 0) for retries in range(5)] == [0.5, 1, 2, 4, None]


def test_the_delay_is_shortened_at_random_by_a_quarter_at_most():
    assert plan_retry(error(529), 2, 0, 1.0) == 1.5


def test_the_provider_may_say_how_long_to_wait():
    assert plan_retry(error(429, retry_after=17.0), 0, 0, 0.5) == 17
    assert [parse_retry_after(each) for each in ({"retry-after": "3"}, {"retry-after-ms": "250"})] == [
        3,
        0.25,
    ]
    assert [parse_retry_after(each) for each in ({}, {"retry-after": "Wed, 21 Oct"})] == [None, None]


def test_nothing_is_sent_again_behind_the_deadline():
    assert plan_retry(error(429, retry_after=60.0), 0, DEADLINE - 61, 0) == 60
    assert plan_retry(error(429, retry_after=60.0), 0, DEADLINE - 59, 0) is None


@pytest.mark.parametrize("status", [0, 400, 401, 403, 404, 413])
def test_an_error_that_stays_is_not_waited_for(status):
    assert plan_retry(error(status), 0, 0, 0) is None
    assert plan_retry(UpstreamError(status, "error", "no"), 0, 0, 0) is None


class APITimeoutError(Exception):
    pass


class StatusError(Exception):
    status_code = 429
    response = SimpleNamespace(headers={"retry-after": "2"})


def test_an_error_of_a_client_library_is_understood():
    wrapped = RuntimeError("the model failed")
    wrapped.__cause__ = StatusError("slow down")
    found = make_send_error(wrapped)
    assert (found.status, found.kind, found.message, found.retry_after) == (
        429, "RuntimeError", "the model failed", 2
    )  # fmt: skip
    assert (make_send_error(APITimeoutError("late")).is_lost, make_send_error(ValueError()).is_lost) == (
        True, False
    )  # fmt: skip
    assert plan_retry(make_send_error(APITimeoutError("late")), 0, 0, 0) == 0.5


class Failing:
    def __init__(self, times, status=529):
        self.times, self.status = times, status
        self.sent = 0

    def __call__(self):
        self.sent += 1
        if self.sent <= self.times:
            raise error(self.status, retry_after=float(self.sent))
        return "answer"

    async def send(self):
        return self()


def test_the_waits_happen_between_the_requests(monkeypatch):
    waits = []
    monkeypatch.setattr(summary_retries, "sleep", waits.append)
    clock = RetryClock(summary_retries.time.monotonic())
    assert (retry(Failing(3), clock), waits) == ("answer", [1, 2, 3])
    failing = Failing(99)
    with pytest.raises(SendError):
        retry(failing, RetryClock(summary_retries.time.monotonic()))
    assert failing.sent == MAX_RETRIES + 1


def test_the_same_holds_for_the_async_driver(monkeypatch):
    waits = []

    async def sleep(seconds):
        waits.append(seconds)

    monkeypatch.setattr(summary_retries, "sleep_async", sleep)
    clock = RetryClock(summary_retries.time.monotonic())
    assert asyncio.run(retry_async(Failing(2).send, clock)) == "answer"
    assert waits == [1, 2]
