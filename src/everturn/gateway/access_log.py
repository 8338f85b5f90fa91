"""The access log: one line of JSON per request, without content, keys or queries."""

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime

from everturn.gateway.exchange import HttpExchange


def make_log_line(exchange: HttpExchange, now: datetime) -> str:
    entry = {
        "at": now.astimezone(UTC).isoformat(timespec="milliseconds"),
        "tenant": exchange.tenant.name,
        "session": exchange.session,
        "mode": exchange.mode,
        "method": exchange.method,
        "path": exchange.path[:200],
        # 0: the client disconnected before a response began.
        "status": exchange.status,
        "received": exchange.received,
        "sent": exchange.sent,
        "seconds": round(time.perf_counter() - exchange.began, 4),
        "notes": exchange.notes,
    }
    return json.dumps(entry, ensure_ascii=True, separators=(",", ":"))


LogRequest = Callable[[HttpExchange], None]


def make_access_log(write: Callable[[str], None], clock: Callable[[], datetime]) -> LogRequest:
    def log(exchange: HttpExchange) -> None:
        write(make_log_line(exchange, clock()))

    return log
