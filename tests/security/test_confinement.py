"""Nothing outside the allowed folders is ever read or written, however a path is spelled (S10-S12)."""

import itertools
import multiprocessing
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from everturn import Session
from everturn.decide.effects import ReadFiles, WriteFile
from everturn.errors import EverturnError
from everturn.session.effect_handler import LocalEffectHandler
from everturn.session.files import read_files, resolve_roots
from everturn.session.memory_files.confined import ReadScope, allow_all, read_confined
from everturn.session.memory_files.discovery import find_memory
from everturn.twin.testing import TwinForTests
from everturn.twin.upstream import make_twin_send

CANARY = "CANARY-FROM-OUTSIDE"
PATHS = 1_000
SWAPS = 2_000
MANY_SWAPS = 100_000

Reader = Callable[[str], str]


class House:
    """An allowed folder with everything in it that could lead out, beside what must not be seen."""

    def __init__(self, base: Path) -> None:
        self.root, self.outside = base / "root", base / "outside"
        (self.outside / "sub").mkdir(parents=True)
        (self.root / "sub" / "deep").mkdir(parents=True)
        for folder in (self.outside, self.outside / "sub"):
            (folder / "secret.md").write_text(CANARY)
            (folder / "plain.md").write_text(CANARY)
        for folder in (self.root, self.root / "sub", self.root / "sub" / "deep"):
            (folder / "plain.md").write_text("plain")
        (self.root / "link-out").symlink_to(self.outside)
        (self.root / "link-file").symlink_to(self.outside / "secret.md")
        (self.root / "sub" / "up").symlink_to("../../outside")
        (self.root / "loop").symlink_to("loop")
        (self.root / "link-in").symlink_to("sub")
        os.mkfifo(self.root / "pipe")
        (base / "root-beside").mkdir()
        (base / "root-beside" / "secret.md").write_text(CANARY)

    def restored(self, path: str) -> str:
        (found,) = read_files(ReadFiles((path,), 10_000), resolve_roots([self.root]))
        return found.text

    def remembered(self, path: str) -> str:
        reach = ReadScope(roots=(self.root,), may_read=allow_all)
        return getattr(read_confined(self.root / path, reach), "text", "")


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def spelled(house: House) -> Iterator[str]:
    """Paths made of every part that has ever led somebody out; the first so many of all combinations."""
    parts = (
        "..", "sub", "link-out", "secret.md", ".", "link-file", "up", "", "plain.md", "link-in", "loop",
        "pipe",
        "root-beside", "outside", "~", "%2e%2e", "..\\", "\u2025", "..%c0%af", "SUB", "a\0b", "x" * 300, "…",
        "\uff0e\uff0e", str(house.outside), "/etc/passwd", "/proc/self/environ", "/dev/stdin",
        "file:///etc/passwd",
    )  # fmt: skip
    for length in (1, 2, 3):
        yield from ("/".join(each) for each in itertools.product(parts, repeat=length))


@pytest.mark.parametrize("reader", ["restored", "remembered"])
def test_none_of_a_thousand_paths_leads_out(house: House, reader: str):
    read: Reader = getattr(house, reader)
    paths = list(itertools.islice(spelled(house), PATHS))
    found = {path: read(path) for path in paths}
    assert len(set(paths)) == PATHS
    # Some of them lead to plain files inside, or this would prove nothing.
    assert set(found.values()) == {"", "plain"}
    assert sum(text == "plain" for text in found.values()) > 5


def _swap(house: House, swaps: int) -> None:
    real, away = house.root / "sub", house.root / "sub-away"
    for _ in range(swaps):
        os.rename(real, away)
        os.symlink(house.outside / "sub", real)
        os.unlink(real)
        os.rename(away, real)


@pytest.mark.parametrize("reader", ["restored", "remembered"])
def test_a_folder_swapped_for_a_link_thousands_of_times_never_shows_the_other_side(
    house: House, reader: str, record_property
):
    read: Reader = getattr(house, reader)
    swaps = MANY_SWAPS if os.environ.get("EVERTURN_PROFILE") == "soak" else SWAPS
    swapping = multiprocessing.get_context("fork").Process(target=_swap, args=(house, swaps))
    swapping.start()
    seen: list[str] = []
    while swapping.is_alive():
        seen += [read("sub/plain.md") for _ in range(20)]
    swapping.join()
    assert set(seen) <= {"", "plain"}
    assert "plain" in seen
    record_property("trials", f"confinement: {swaps:,} swaps, {len(seen):,} reads by {reader}")


def test_a_memory_file_imports_nothing_from_outside(house: House):
    (house.root / ".git").mkdir()
    imports = "\n".join(
        f"@{path}" for path in ("../outside/secret.md", "link-file", "sub/up/secret.md", "/etc/passwd")
    )
    (house.root / "CLAUDE.md").write_text(f"Rules.\n{imports}\n@{house.outside}/secret.md\n@sub/plain.md\n")
    found = find_memory(house.root, house.outside)
    assert [Path(file.path).name for file in found.files] == ["CLAUDE.md", "plain.md"]
    assert CANARY not in repr(found.files).replace("@", "")


@pytest.mark.parametrize("name", ["../escaped", "/tmp/../escaped", "a/b/../../../escaped", "..", "x" * 400])
def test_an_offloaded_result_stays_in_its_folder(tmp_path: Path, name: str):
    folder = tmp_path / "files"
    world = LocalEffectHandler(lambda body, betas: None, folder)  # type: ignore[arg-type, return-value]
    try:
        written = Path(world.write_file(WriteFile(name, "text")))
    except EverturnError:
        written = folder / "refused"
    assert written.parent == folder
    assert [path.name for path in tmp_path.iterdir()] in ([], ["files"])


LINKS = (".lock", ".state.json.new", ".index.sqlite", ".notes.md.new", ".pins")


@pytest.mark.parametrize("suffix", LINKS)
def test_a_link_that_lies_where_we_are_about_to_write_is_not_followed(
    tmp_path: Path, twin: TwinForTests, suffix: str
):
    """A repository may bring a transcript, and links under the names of what belongs to it."""
    target = tmp_path / "bashrc"
    target.write_text("# mine\n")
    transcript = tmp_path / "session.jsonl"
    (tmp_path / f"session.jsonl{suffix}").symlink_to(target)
    problem = ""
    try:
        with Session.open(transcript, model="claude-haiku-4-5", send=make_twin_send(twin.twin)) as session:
            session.send("Hello.")
            session.recall("Hello")
    except EverturnError as refused:
        problem = str(refused)
    # Without its lock there is no session; everything else is a help that can be missing.
    assert ("is a symbolic link" in problem) == (suffix == ".lock")
    assert target.read_text() == "# mine\n"


def test_a_folder_for_results_that_is_a_link_is_not_written_to(tmp_path: Path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "files").symlink_to(elsewhere)
    world = LocalEffectHandler(lambda body, betas: None, tmp_path / "files")  # type: ignore[arg-type, return-value]
    with pytest.raises(EverturnError, match="is a symbolic link"):
        world.write_file(WriteFile("result.txt", "text"))
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize(
    "name", [".env", ".ENV", "id_rsa", "server.pem", ".npmrc", "Credentials.json", ".pgpass"]
)
@pytest.mark.parametrize("reader", ["restored", "remembered"])
def test_a_file_that_became_a_secret_is_not_read_again(house: House, reader: str, name: str):
    (house.root / name).write_text(CANARY)
    (house.root / "innocent.md").symlink_to(name)
    read: Reader = getattr(house, reader)
    assert (read(name), read("innocent.md")) == ("", "")
