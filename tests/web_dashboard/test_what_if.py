"""What if: policies side by side, computed in the background, kept, and drawn by the replay page's code."""

import re
import time
from pathlib import Path

import pytest
from small_session import reading
from web_dashboard.client import Client, text_of
from web_dashboard.conftest import MakeDashboard, ids, paused, write

from everturn.replay.compare import Comparison
from everturn.replay.page import parts
from everturn.replay.page.session_comparison import by_cost
from everturn.replay.parallel.replays import ReplayOutcome, ReplayTask, replay_file
from everturn.web_dashboard.app import ASSETS


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write(tmp_path / "sessions" / "a.jsonl", paused())
    write(tmp_path / "sessions" / "b.jsonl", reading())
    return tmp_path / "sessions"


def compare(client: Client, *policies: str) -> str:
    chosen = [place.rpartition("/")[2] for place in ids(client).values()]
    found = client.post("/what-if", {"sessions": chosen, "policies": list(policies)})
    assert found.status == 200, found.text
    return found.json["location"]


def finished(client: Client, place: str) -> str:
    for _ in range(500):
        page = client.page(place)
        if "data-job" not in page:
            return page
        time.sleep(0.02)
    raise AssertionError(page)


@pytest.mark.spec("DB-8", "DB-12")
def test_policies_are_compared_with_the_error_and_with_what_each_forgot(root, make_dashboard: MakeDashboard):
    client = make_dashboard(root)
    place = compare(client, "recorded", "clear-keep-3")
    page = finished(client, place)
    said = text_of(page)
    assert "2 sessions, 6 calls, replayed under 2 policies." in said
    assert (
        "Policy Dollars Error Saved against recorded Words kept Hit rate Breaks Peak Mean Compactions" in said
    )
    assert "recorded against the usage that the recording reports" in said
    # Drawn by the functions of `everturn replay --html`, with its style and script.
    found = client.dashboard.tools.comparisons.load(place.rpartition("/")[2])
    assert found is not None
    compared = Comparison()
    for each in found[0]:
        compared.add(each.runs)
    assert str(parts.policies(by_cost(found[0]), compared.compared([]))) in page
    assert {ASSETS[name][0] for name in ("report.css", "report.js")} == {"everturn.replay.page"}
    # The page of a session shows it too, as cost so far.
    assert "Cumulative cost, one line for each policy" in client.page(ids(client)["a"])


@pytest.mark.spec("DB-8")
def test_a_comparison_is_kept_for_the_next_run(root: Path, make_dashboard: MakeDashboard):
    first = make_dashboard(root)
    place = compare(first, "recorded", "none")
    page = finished(first, place)
    first.dashboard.index.close()

    def never(task: ReplayTask) -> ReplayOutcome:
        raise AssertionError("it is computed again")

    second = make_dashboard(root, replay=never)
    table = re.compile(r'<section id="policies">.*?</section>', re.DOTALL)
    assert table.findall(second.page(place)) == table.findall(page) != []
    assert place in second.page("/what-if")


@pytest.mark.spec("DB-8")
def test_progress_is_shown_while_files_are_replayed(root: Path, make_dashboard: MakeDashboard):
    seen: list[str] = []
    made: list[Client] = []

    def slow(task: ReplayTask) -> ReplayOutcome:
        seen.append(
            text_of(made[0].page(f"/what-if/{next(iter(made[0].dashboard.tools.comparisons._jobs))}"))
        )
        return replay_file(task)

    made.append(make_dashboard(root, replay=slow))
    finished(made[0], compare(made[0], "recorded"))
    assert ["Replaying: 0 of 2 files" in seen[0], "Replaying: 1 of 2 files" in seen[1]] == [True, True]


@pytest.mark.parametrize(
    ("sessions", "policies", "why"),
    [
        ([], ["recorded"], "Choose 1 to 200 sessions; 0 were chosen."),
        (["a"], [], "Choose 1 to 16 policies; 0 were chosen."),
        (["a"], ["nonsense"], "Unknown policy 'nonsense'."),
    ],
)
def test_a_wrong_choice_is_explained(root: Path, make_dashboard: MakeDashboard, sessions, policies, why: str):
    client = make_dashboard(root)
    known = ids(client)
    chosen = [known[name].rpartition("/")[2] for name in sessions]
    found = client.post("/what-if", {"sessions": chosen, "policies": policies})
    assert (found.status, why in found.json["why"]) == (400, True)


def test_a_replay_that_fails_says_why(root: Path, make_dashboard: MakeDashboard):
    def fails(task: ReplayTask) -> ReplayOutcome:
        raise RuntimeError("no memory")

    client = make_dashboard(root, replay=fails)
    place = compare(client, "recorded")
    for _ in range(200):
        if "no memory" in (page := client.page(place)):
            break
        time.sleep(0.01)
    assert "RuntimeError: no memory" in text_of(page)
