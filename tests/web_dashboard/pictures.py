"""Pictures of the dashboard for the documentation: `make pictures`.

    PYTHONPATH=tests python -m web_dashboard.pictures FOLDER

Shows generated sessions of ten weeks, so that the same pictures come out everywhere.
"""

import os
import re
import sys
import tempfile
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

from replay.browser import browser

from everturn.catalog.places import Places
from everturn.decide.options import Options
from everturn.replay.synthetic import SessionShape, generate_session
from everturn.twin.sockets import url_of
from everturn.web_dashboard.dashboard import Dashboard
from everturn.web_dashboard.queries import Scope, list_sessions
from everturn.web_dashboard.server import DashboardServer, bind
from everturn.web_dashboard.summarize import summarize_file

SESSIONS = 16
NOW = datetime(2026, 11, 16, 9, 0, tzinfo=UTC)
PLACES = ("harbour", "lumen", "mossgrid")
MODELS = ("claude-opus-5", "claude-sonnet-5")


def main() -> None:
    out = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        # Paths below the home folder are shown with ~, so the pictures do not name this machine.
        os.environ["HOME"] = folder
        projects = root / ".claude" / "projects"
        for number in range(SESSIONS):
            project = PLACES[number % len(PLACES)]
            write_session(projects / f"-home-dev-{project}" / f"{number}.jsonl", number, project)
        example = Path(__file__).parents[2] / "examples" / "session.jsonl"
        (projects / "-home-dev-mossgrid" / "example.jsonl").write_bytes(example.read_bytes())
        places = Places((projects,), root / "own", root / "cache", any_format=True)
        dashboard = Dashboard(
            places, Options(), zone=UTC, clock=lambda: NOW.timestamp(), summarize=summarize_file
        )
        dashboard.indexer.update()
        take(dashboard, out)
        dashboard.stop()


def write_session(path: Path, number: int, project: str) -> None:
    """One session every four days, in three projects and with two models."""
    shape = SessionShape(
        boundaries=number % 3, idle_gaps=number % 5, model=MODELS[number % 3 == 1], sidechains=number % 2
    )
    start = NOW - timedelta(days=4.3 * (SESSIONS - number), hours=number)
    lines = generate_session(seed=number, tokens=40_000 + 9_000 * number, shape=shape, start=start)
    data = b"".join(line + b"\n" for line in lines)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(re.sub(rb"/home/\w+/\w+", f"/home/dev/{project}".encode(), data))


def take(dashboard: Dashboard, out: Path) -> None:
    ready = threading.Event()
    server = DashboardServer(dashboard, ready.set)
    example = next(row for row in list_sessions(dashboard.index, Scope(), most=99) if row.name == "example")
    with bind(0) as listener, browser() as chromium:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        ready.wait(timeout=20)
        shown = {
            "dashboard": ("/", "light", 780),
            "dashboard-session": (f"/session/{example.id}?call=120", "dark", 800),
        }
        for name, (path, scheme, height) in shown.items():
            page = chromium.new_page(viewport={"width": 1280, "height": height}, color_scheme=scheme)
            page.goto(f"{url_of(listener)}/?key={dashboard.key}")
            page.goto(url_of(listener) + path)
            page.screenshot(path=str(out / f"{name}.png"))
            page.close()
        server.should_exit = True
        thread.join(timeout=20)
    for name in shown:
        print(f"{os.path.getsize(out / f'{name}.png'):>8,} {name}.png")


if __name__ == "__main__":
    main()
