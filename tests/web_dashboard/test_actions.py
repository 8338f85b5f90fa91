"""Actions from the browser: compact with a dry run first, undo, pin, export; refused while others write."""

import os
from pathlib import Path

import pytest
from small_session import SmallSession, text
from web_dashboard.client import Client
from web_dashboard.conftest import NOW, MakeDashboard, ids, write

from everturn.session.session import Session
from everturn.session.upstream import RawResponse


@pytest.fixture
def file(tmp_path: Path) -> Path:
    session = SmallSession()
    for number in range(6):
        session.human(f"Step {number}: keep the tests green.")
        session.reply(f"m{number}", text("Done. " * 400), read=20_000 * number, written=20_000, out=400)
    path = write(tmp_path / "sessions" / "a.jsonl", session, project=str(tmp_path))
    os.utime(path, (NOW.timestamp() - 3600, NOW.timestamp() - 3600))
    return path


@pytest.fixture
def client(file: Path, make_dashboard: MakeDashboard) -> Client:
    return make_dashboard(file.parent)


def act(client: Client, name: str, words: str = "") -> tuple[int, dict[str, object]]:
    found = client.post(f"{ids(client)['a']}/{name}", {"text": words})
    return found.status, found.json


def quiet(file: Path) -> None:
    """As if the last change were an hour ago."""
    os.utime(file, (NOW.timestamp() - 3600, NOW.timestamp() - 3600))


@pytest.mark.spec("DB-7")
def test_a_compaction_is_planned_confirmed_and_undone(client: Client, file: Path):
    before = file.read_bytes()
    status, plan = act(client, "plan")
    assert (status, plan["title"], plan["confirm"]) == (200, "Compact this session?", "compact")
    assert dict(plan["rows"])["Strategy"] == "extractive"  # type: ignore[call-overload]
    assert file.read_bytes() == before

    status, done = act(client, "compact")
    assert (status, done["confirm"]) == (200, "")
    rows = dict(done["rows"])  # type: ignore[call-overload]
    assert rows["Price"] == "nothing: no call was made"
    after = file.read_bytes()
    assert after.startswith(before)
    assert b"compact_boundary" in after[len(before) :]

    client.dashboard.indexer.update()
    assert "Undo compaction" in client.page(ids(client)["a"])
    quiet(file)
    status, undone = act(client, "undo")
    assert (status, undone["title"]) == (200, "The last compaction is undone.")
    quiet(file)
    status, again = act(client, "undo")
    assert (status, sorted(again)) == (400, ["why"])


@pytest.mark.spec("DB-7")
def test_a_pinned_text_is_in_the_transcript(client: Client, file: Path):
    assert act(client, "pin", "  Never push to main.  ")[0] == 200
    assert b"Never push to main." in file.read_bytes()
    client.dashboard.indexer.update()
    assert "Pinned: Never push to main." in client.page(ids(client)["a"])
    quiet(file)
    status, found = act(client, "pin", "   ")
    assert (status, found["why"]) == (400, "There is no text to pin. Write what every compaction must keep.")


@pytest.mark.spec("DB-7")
@pytest.mark.parametrize("action", ["compact", "undo", "pin"])
def test_while_another_process_writes_nothing_is_changed(client: Client, file: Path, action: str):
    # A file that its agent has just written.
    os.utime(file, (NOW.timestamp() - 5, NOW.timestamp() - 5))
    before = file.read_bytes()
    status, found = act(client, action, "Keep this.")
    assert status == 409
    assert "was written 5 seconds ago: another process may be using it. Nothing was changed." in str(found)
    assert file.read_bytes() == before
    # A session that one of our own programs holds open.
    quiet(file)
    with Session.open(file, config=None, send=lambda body, betas: RawResponse(b"")):
        quiet(file)
        held = file.read_bytes()
        status, found = act(client, action, "Keep this.")
        assert (status, "is being written by process" in str(found["why"])) == (409, True)
        assert file.read_bytes() == held


@pytest.mark.spec("DB-7")
def test_a_session_is_exported_as_it_is_on_disk(client: Client, file: Path):
    found = client.get(f"{ids(client)['a']}/export")
    assert (found.status, found.text) == (200, file.read_text())
    assert found.headers["content-disposition"] == "attachment; filename*=UTF-8''a.jsonl"
    assert client.get("/session/000000000000/export").status == 404


def test_a_session_of_another_format_offers_no_actions(tmp_path: Path, make_dashboard: MakeDashboard):
    folder = tmp_path / "other"
    folder.mkdir()
    (folder / "chat.json").write_text(
        '[{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "Hello."}]'
    )
    client = make_dashboard(folder)
    page = client.page(next(iter(ids(client).values())))
    assert ("data-action" in page, "/export" in page) == (False, True)


def test_an_unknown_action_is_refused(client: Client):
    assert act(client, "delete") == (404, {"why": "There is no such action."})
