"""The agent of `examples/middleware.py`: on the tool runner, streamed, 300 calls, a window of 200K."""

import importlib.util
from pathlib import Path

import anthropic
import pytest

import everturn
from everturn.twin.testing import TwinForTests

HAIKU = "claude-haiku-4-5"


@pytest.fixture(scope="module")
def example():
    path = Path(__file__).parents[3] / "examples" / "middleware.py"
    spec = importlib.util.spec_from_file_location("middleware_example", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def bill(twin):
    return sum(entry["dollars"] for entry in twin.ledger)


def test_it_finishes_with_the_middleware_and_fails_without_at_a_fraction_of_the_bill(example):
    plain, ours = TwinForTests(), TwinForTests()
    with pytest.raises(anthropic.BadRequestError, match="prompt is too long"):
        example.run_agent(plain.client(max_retries=0), HAIKU, 300)
    middleware = everturn.middleware(folder=None)
    made = example.run_agent(ours.client(middleware=[middleware], max_retries=0), HAIKU, 300)
    assert len(plain.ledger) < 200 < 300 <= made
    assert {entry["status"] for entry in ours.ledger} == {200}
    assert bill(ours) < bill(plain) / 3
    (held,) = middleware.conversations
    assert held.compactions >= 2
    assert float(middleware.bill.dollars) == pytest.approx(bill(ours))
