"""What if: policies side by side, computed in the background, kept, and drawn by the replay page's code."""

import re
import time
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import pytest
from small_session import reading
from web_dashboard.client import Client, Elements, text_of
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
def test_the_economic_policy_is_among_those_that_are_compared_unless_somebody_chooses_others(
    root, make_dashboard: MakeDashboard
):
    boxes = Elements(make_dashboard(root).page("/what-if")).named("input")
    chosen = [box["value"] for box in boxes if box.get("name") == "policy" and "checked" in box]
    assert sorted(chosen) == ["claude-code", "clear-keep-3", "economic", "none", "recorded"]


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


def chosen_again(page: str) -> dict[str, list[str]]:
    """What the button "Try again" sends."""
    (form,) = re.findall(r"<form data-compare[^>]*>.*?</form>", page, re.DOTALL)
    assert "Try again" in text_of(form)
    boxes = re.findall(r"<input[^>]*>", form)
    names = {"sessions": "session", "policies": "policy"}
    return {
        key: [
            value
            for box in boxes
            if f'name="{name}"' in box and " checked" in box
            for value in re.findall(r'value="([^"]*)"', box)
        ]
        for key, name in names.items()
    }


@pytest.mark.spec("DB-8")
def test_a_comparison_whose_process_ended_says_so_and_can_be_tried_again(
    root: Path, make_dashboard: MakeDashboard
):
    killed = {"a.jsonl", "b.jsonl"}

    def replay(task: ReplayTask) -> ReplayOutcome:
        if Path(task.file).name in killed:
            raise BrokenProcessPool
        return replay_file(task)

    def once_done(words: str) -> str:
        for _ in range(500):
            if words in text_of(page := client.page(place)):
                return page
            time.sleep(0.01)
        raise AssertionError(page)

    client = make_dashboard(root, replay=replay)
    place = compare(client, "recorded", "none")
    page = once_done("Try again")
    assert "the process that replayed it ended unexpectedly" in text_of(page)
    # It is not kept, so nobody is shown an empty comparison later.
    assert client.dashboard.tools.comparisons.recent() == []
    # One file works now: its result is shown, and the other can still be tried.
    killed.remove("b.jsonl")
    assert client.post("/what-if", chosen_again(page)).json["location"] == place
    page = once_done("Left out")
    said = text_of(page)
    assert ("1 session, " in said, "a.jsonl: the process that replayed it ended" in said) == (True, True)
    killed.clear()
    assert client.post("/what-if", chosen_again(page)).json["location"] == place
    page = once_done("2 sessions, 6 calls, replayed under 2 policies.")
    assert "Try again" not in page
