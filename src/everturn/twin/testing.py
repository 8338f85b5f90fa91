"""The pytest fixture `twin`: a new twin for every test.

    def test_my_agent_reuses_its_prefix(twin):
        twin.script("First answer.", "Second answer.")
        run_my_agent(twin.client())
        assert twin.ledger[-1]["usage"]["cache_read_input_tokens"] > 0

pytest loads this module in every project that has everturn installed, so it imports nothing else until the
fixture is used. `TwinForTests` also works without pytest.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

try:
    import pytest
except ModuleNotFoundError:
    pytest = None

if TYPE_CHECKING:
    import anthropic

    from everturn.twin.service import Twin


class TwinForTests:
    """A twin in this process with a virtual clock, and SDK clients connected to it."""

    def __init__(self, **settings: Any) -> None:
        from everturn.twin.build import build_twin

        self.twin: Twin = build_twin(**settings)
        self._open: list[Any] = []

    def client(self, *, api_key: str = "test-key", **settings: Any) -> "anthropic.Anthropic":
        """An `anthropic.Anthropic` client that talks to this twin; `settings` go to its constructor."""
        import anthropic
        import httpx2

        from everturn.twin.transport import TwinTransport

        http = httpx2.Client(transport=TwinTransport(self.twin))
        self._open.append(http)
        return anthropic.Anthropic(api_key=api_key, base_url="http://twin", http_client=http, **settings)

    def async_client(self, *, api_key: str = "test-key", **settings: Any) -> "anthropic.AsyncAnthropic":
        """The same as `client`, for asyncio."""
        import anthropic
        import httpx2

        from everturn.twin.transport import AsyncTwinTransport

        # Not closed: the transport has no connection.
        http = httpx2.AsyncClient(transport=AsyncTwinTransport(self.twin))
        return anthropic.AsyncAnthropic(api_key=api_key, base_url="http://twin", http_client=http, **settings)

    @property
    def ledger(self) -> list[dict[str, Any]]:
        """One entry per request, failed requests included: usage, cache and itemized price."""
        return self.twin.ledger()

    def advance(self, seconds: float) -> None:
        """Move the virtual clock forward, for example past the lifetime of a cache entry."""
        from everturn.twin.clock import VirtualClock

        assert isinstance(self.twin.clock, VirtualClock)
        self.twin.clock.advance(seconds)

    def script(self, *replies: str | dict[str, Any]) -> None:
        """Queue the next replies, in order: texts, or objects as in `POST /twin/script`."""
        from everturn.twin.control import read_script

        self.twin.speaker.add(read_script({"replies": list(replies)}))

    def faults(self, *faults: str | dict[str, Any]) -> None:
        """Queue the next faults, in order: kinds, or objects as in `POST /twin/faults`."""
        from everturn.twin.control import read_faults

        self.twin.faults.add(read_faults({"faults": list(faults)}).faults or ())

    def close(self) -> None:
        """Close the clients that were created here."""
        for http in self._open:
            http.close()


if pytest is not None:

    @pytest.fixture
    def twin() -> Iterator[TwinForTests]:
        """A local Messages API: `.client()`, `.script()`, `.faults()`, `.advance()`, `.ledger`."""
        made = TwinForTests()
        yield made
        made.close()
