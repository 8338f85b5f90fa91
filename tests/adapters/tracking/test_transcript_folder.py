"""Which files of a folder are opened to find the conversation of a request."""

from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from everturn.adapters.tracking import transcript_folder
from everturn.adapters.tracking.caller_request import CallerRequest, read_request
from everturn.adapters.tracking.scopes import make_scope, name_conversation
from everturn.adapters.tracking.transcript_folder import TranscriptFolder, full_name

BEGAN = datetime(2026, 11, 16, tzinfo=UTC)


def ask(first: str, scope: str = "") -> CallerRequest:
    messages = [
        {"role": "user", "content": first},
        {"role": "assistant", "content": "Yes."},
        {"role": "user", "content": "And?"},
    ]
    found = read_request({"model": "claude-opus-5-5", "max_tokens": 9, "messages": messages}, scope=scope)
    assert isinstance(found, CallerRequest)
    return found


class Folder:
    """A folder with empty transcripts, which counts the files whose first lines are read."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path = path
        self.peeked: list[str] = []
        self.folder = TranscriptFolder(path, lambda *_: None, lambda *_: None)
        monkeypatch.setattr(transcript_folder, "_may_begin", self._peek)

    def _peek(self, path: Path, request: CallerRequest) -> bool:
        self.peeked.append(path.stem.split("-")[5])
        return False

    def add(self, name: str, request: CallerRequest) -> Path:
        path = self.path / (
            full_name(request.chain[0], name_conversation(name, request.scope), BEGAN) + ".jsonl"
        )
        path.touch()
        return path

    def candidates(self, request: CallerRequest, exclude: Collection[str] = ()) -> list[str]:
        found: list[str] = []
        for each in self.folder.candidates(request, exclude):
            found.append(Path(each.path).stem.split("-")[5])
            each.close()
        return found


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    return Folder(tmp_path, monkeypatch)


def test_a_known_beginning_is_opened_whoever_said_it_and_first_lines_are_read_in_the_own_scope_only(
    folder: Folder,
):
    own, other = make_scope("one", ""), make_scope("two", "")
    folder.add("same", ask("Hello.", own))
    folder.add("fork", ask("Hello.", other))
    folder.add("respelled", ask("Hello, with a reminder.", own))
    folder.add("foreign", ask("Hello, with a reminder.", other))
    folder.add("nameless", ask("Hello, with a reminder."))
    assert sorted(folder.candidates(ask("Hello.", own))) == ["fork", "same"]
    assert folder.peeked == ["respelled"]
    folder.peeked.clear()
    folder.candidates(ask("Hello."))
    assert folder.peeked == ["nameless"]


def test_first_lines_are_not_read_while_a_file_with_the_known_beginning_is_enough(folder: Folder):
    folder.add("same", ask("Hello."))
    folder.add("respelled", ask("Hello, with a reminder."))
    found = folder.folder.candidates(ask("Hello."), ())
    next(found).close()
    assert folder.peeked == []


def test_conversations_in_memory_are_left_out_also_where_the_folder_or_a_file_is_a_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "real").mkdir()
    real = Folder(tmp_path / "real", monkeypatch)
    known = real.add("known", ask("Hello."))
    later = full_name(ask("Hello.").chain[0], "linked", BEGAN + timedelta(seconds=1))
    (tmp_path / "real" / f"{later}.jsonl").symlink_to(known)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    linked = Folder(tmp_path / "link", monkeypatch)
    assert linked.candidates(ask("Hello."), {str(known)}) == []


def test_a_link_to_nothing_hides_no_other_transcript(folder: Folder):
    folder.add("same", ask("Hello."))
    later = full_name(ask("Hello.").chain[0], "linked", BEGAN + timedelta(seconds=1))
    (folder.path / f"{later}.jsonl").symlink_to(folder.path / "removed")
    assert folder.candidates(ask("Hello.")) == ["same"]


def test_a_folder_that_cannot_be_read_is_told_and_one_that_is_missing_is_not(tmp_path: Path):
    told: list[tuple[str, ...]] = []
    (tmp_path / "file").touch()
    for name in ("missing", "file"):
        folder = TranscriptFolder(tmp_path / name, lambda *words: told.append(words), lambda *_: None)
        assert list(folder.candidates(ask("Hello."), ())) == []
    (one,) = told
    assert one[0] == "the folder of the transcripts cannot be read; no earlier conversation is found in it"
    assert one[1].startswith("[Errno 20] Not a directory: ")
