"""A summary that another model has written than the one that was asked."""

import json
from pathlib import Path
from typing import Any

import pytest

from everturn import Session
from everturn.twin.build import build_twin
from everturn.twin.upstream import make_twin_send

HAIKU, OPUS = "claude-haiku-4-5", "claude-opus-5"


def test_a_summary_that_a_fallback_wrote_is_paid_as_its_models(tmp_path: Path) -> None:
    twin = build_twin()
    to_twin, asked = make_twin_send(twin), [HAIKU, OPUS, OPUS, OPUS]

    def send(body: bytes, betas: Any) -> Any:
        return to_twin(json.dumps({**json.loads(body), "model": asked.pop(0)}).encode(), betas)

    options: dict[str, Any] = {"model": HAIKU, "send": send, "config": None, "clock": twin.clock.now}
    with Session.open(tmp_path / "work.jsonl", **options) as session:
        session.send("Hello. " + "A long line. " * 3000)
        session.compact()
        spent = [entry["dollars"] for entry in twin.ledger() if entry["status"] == 200]
        models = [entry["model"] for entry in twin.ledger() if entry["status"] == 200]
        assert models == [HAIKU, OPUS]
        assert float(session.bill.dollars) == pytest.approx(sum(spent))
