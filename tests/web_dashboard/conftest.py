"""Dashboards over a few small sessions, read in this process."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from small_session import SmallSession, call, text
from web_dashboard.client import Client

from everturn.catalog.places import Places
from everturn.decide.options import Options
from everturn.replay.parallel.replays import replay_file
from everturn.web_dashboard.dashboard import Dashboard
from everturn.web_dashboard.summarize import summarize_file

NOW = datetime(2026, 1, 6, 12, 0, tzinfo=UTC)
MakeDashboard = Callable[..., Client]


def write(
    path: Path,
    session: SmallSession,
    *,
    project: str = "/home/me/parser",
    times: str = "",
    is_copy: bool = False,
) -> Path:
    """The session as a file; `times` replaces the day and hour of all lines, like 2026-01-05T10. Unless it is
    a copy of another file, its responses have ids of their own."""
    lines: list[dict[str, Any]] = [line | {"cwd": project} for line in session.lines]
    if not is_copy:
        for line in lines:
            if "id" in (message := line.get("message", {})):
                line["message"] = message | {"id": f"{path.stem}-{message['id']}"}
    if times:
        lines = [line | {"timestamp": line["timestamp"].replace("2026-01-05T10", times)} for line in lines]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def paused() -> SmallSession:
    """A question, a pause of half an hour, and a second call that writes everything again."""
    session = SmallSession()
    session.human("Why does the parser fail?")
    session.reply("m1", call("c1", "Read", file_path="/home/me/parser.py"), written=50_000, out=50)
    session.result("c1", "def parse(): ...\n" * 400)
    session.reply("m2", text("The loop ends early."), plain=20, written=60_000, out=80)
    session.lines[-1]["timestamp"] = "2026-01-05T10:33:00Z"
    return session


@pytest.fixture
def make_dashboard(tmp_path: Path) -> Iterator[MakeDashboard]:
    """Makes a dashboard over a folder that has read everything in it."""
    made: list[Dashboard] = []

    def make(root: Path, *, read: bool = True, **more: object) -> Client:
        cache = tmp_path / "cache" / "everturn" / "dashboard"
        places = Places((root,), tmp_path / "own", cache, any_format=True)
        options: dict[str, object] = {
            "clock": lambda: NOW.timestamp(),
            "zone": UTC,
            "results": str(tmp_path / "results"),
            "summarize": summarize_file,
            "replay": replay_file,
        }
        dashboard = Dashboard(places, Options(), **(options | more))  # type: ignore[arg-type]
        made.append(dashboard)
        if read:
            dashboard.indexer.update()
        return Client(dashboard)

    yield make
    for each in made:
        each.stop()


def ids(client: Client) -> dict[str, str]:
    """The address of each session, by the name of its file."""
    rows = client.dashboard.index.read("SELECT name, id FROM sessions ORDER BY name")
    return {name: f"/session/{id}" for name, id in rows}
