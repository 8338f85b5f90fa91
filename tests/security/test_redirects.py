"""A key goes to the address that was configured and nowhere else (S05)."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from everturn import Session
from everturn.chat.model_connection import connect_to_model
from everturn.decide.options import ProviderSettings, Secret
from everturn.errors import UpstreamError

pytest.importorskip("anthropic")


class Servers:
    """One server that redirects every request, and the one that it redirects to."""

    def __init__(self, status: int) -> None:
        self.seen: list[str] = []
        seen = self.seen

        class Target(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                seen.append(str(self.headers))
                self.send_response(500)
                self.end_headers()

            do_GET = do_POST  # noqa: N815

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.target = ThreadingHTTPServer(("127.0.0.1", 0), Target)
        elsewhere = f"http://127.0.0.1:{self.target.server_port}/v1/messages"

        class Redirecting(Target):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                self.send_response(status)
                self.send_header("Location", elsewhere)
                self.send_header("Content-Length", "0")
                self.end_headers()

        self.front = ThreadingHTTPServer(("127.0.0.1", 0), Redirecting)
        for each in (self.target, self.front):
            threading.Thread(target=each.serve_forever, daemon=True).start()

    @property
    def settings(self) -> ProviderSettings:
        return ProviderSettings(
            api_key=Secret("sk-ant-canary"), base_url=f"http://127.0.0.1:{self.front.server_port}"
        )

    def close(self) -> None:
        for each in (self.target, self.front):
            each.shutdown()
            each.server_close()


@pytest.fixture(params=[301, 302, 303, 307, 308])
def servers(request: pytest.FixtureRequest) -> Iterator[Servers]:
    made = Servers(request.param)
    yield made
    made.close()


def test_no_client_of_ours_follows_a_redirect(tmp_path: Path, servers: Servers):
    for how in (
        {"provider": servers.settings},
        {"client": connect_to_model(servers.settings).client},
    ):
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.jsonl"
        with Session.open(path, model="claude-haiku-4-5", **how) as session, pytest.raises(UpstreamError):  # type: ignore[arg-type]
            session.send("Hello.")
    assert servers.seen == []
