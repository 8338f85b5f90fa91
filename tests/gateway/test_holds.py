"""Holds of the gateway: for named tenants only, with the client's key, within a budget (EC-11)."""

import time
from typing import Any

import anthropic
import pytest

from everturn.gateway.app import make_gateway
from everturn.gateway.server import serve_gateway
from everturn.gateway.start import load_settings
from everturn.twin.service import Twin

LOG = "The token comes late. " * 2_300
HOLDS = {
    "store.kind": "memory",
    "policy": "economic",
    "compact.strategies": "extractive",
    "economy.hold_after": "50ms",
    "economy.hold_share": "1.0",
    "gateway.hold_tenants": "local",
}


@pytest.fixture(autouse=True)
def data_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


def ask(url: str, *messages: dict[str, Any]) -> Any:
    with anthropic.Anthropic(api_key="key-of-the-client", base_url=url, max_retries=0) as client:
        given: Any = [{"role": "user", "content": LOG}, *messages]
        return client.messages.create(model="claude-opus-4-5", max_tokens=100, messages=given)


def wait_for_calls(twin: Twin, count: int, seconds: float = 10.0) -> int:
    until = time.monotonic() + seconds
    while len(twin.ledger()) < count and time.monotonic() < until:
        time.sleep(0.01)
    return len(twin.ledger())


def opened(twin_url: str, **settings: str) -> Any:
    loaded = load_settings(
        upstream=twin_url, mode="manage", settings={**HOLDS, **settings}, config_path=None, limits={}
    )
    return make_gateway(loaded)


@pytest.mark.spec("EC-11")
def test_a_named_tenant_is_held_with_its_own_key_and_the_next_request_reads_the_prefix(served_twin, twin_url):
    gateway = opened(twin_url)
    with serve_gateway(gateway, shutdown_seconds=1) as (url, _):
        made = ask(url)
        assert wait_for_calls(served_twin, 2) == 2
        said = [{"role": "assistant", "content": [each.model_dump() for each in made.content]}]
        ask(url, *said, {"role": "user", "content": "Go on."})
        metrics = gateway.metrics.write().decode()
    first, hold, after = served_twin.ledger()[:3]
    assert hold["workspace"] == first["workspace"]
    assert hold["usage"]["cache_read_input_tokens"] == first["usage"]["cache_creation_input_tokens"]
    assert after["usage"]["cache_read_input_tokens"] > 0
    assert 'everturn_gateway_dollars_total{purpose="hold"}' in metrics


@pytest.mark.spec("EC-11")
@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"gateway.hold_tenants": "somebody", "economy.holds": "true"}, id="another tenant"),
        pytest.param({"economy.day_dollars": "0"}, id="no budget"),
    ],
)
def test_no_hold_is_sent_for_others_nor_beyond_the_budget_of_the_day(served_twin, twin_url, settings):
    with serve_gateway(opened(twin_url, **settings), shutdown_seconds=1) as (url, _):
        ask(url)
        assert wait_for_calls(served_twin, 2, seconds=0.4) == 1
