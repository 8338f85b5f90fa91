"""Nothing is acknowledged into a transcript that has another name now, where nobody will find it."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from everturn import StoreError


def renamed(path: Path) -> None:
    path.rename(path.with_name("moved.jsonl"))


def saved_by_an_editor(path: Path) -> None:
    """The old file becomes the backup, and a copy of it is put in its place."""
    backup = path.rename(path.with_name("session.jsonl~"))
    shutil.copy(backup, path)


def folder_restored_from_a_backup(path: Path) -> None:
    aside = path.parent.rename(path.parent.with_name("aside"))
    shutil.copytree(aside, path.parent)


@pytest.mark.spec("TR-10")
@pytest.mark.parametrize(
    ("move", "how"),
    [
        (renamed, "moved to another name"),
        (saved_by_an_editor, "replaced by another file"),
        (folder_restored_from_a_backup, "replaced by another file"),
    ],
)
def test_what_is_said_after_the_transcript_was_renamed_is_refused_and_not_lost(
    desk, move: Callable[[Path], None], how: str
):
    desk.path = desk.folder / "work" / "session.jsonl"
    desk.path.parent.mkdir()
    with desk.open() as session:
        desk.talk(session, turns=1)
        sent = len(desk.bodies)
        move(desk.path)
        with pytest.raises(StoreError) as raised:
            session.send("Where will this be?")
    assert str(raised.value) == (
        f"The last append to {desk.path} failed: it was {how} while it was open. "
        "Open the session again to go on with what is there now."
    )
    assert len(desk.bodies) == sent
    files = [path for path in desk.folder.rglob("session.jsonl*") if path.is_file()]
    assert not [path for path in files if b"Where will this be?" in path.read_bytes()]
