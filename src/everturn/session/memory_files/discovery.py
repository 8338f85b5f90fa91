"""Find memory files in the user's home and from the working directory upwards, with their imports (NM-1).

The order is from general to specific: the user's own files first, then from the outermost folder of the
project to the working directory. Later files can refine earlier ones.
"""

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, Literal

import msgspec

from everturn.session.memory_files.confined import (
    FileText,
    ReadPermission,
    ReadScope,
    UnreadFile,
    allow_all,
    read_confined,
)
from everturn.session.memory_files.imports import find_imports

MemoryKind = Literal["user", "project", "local", "nested"]
MemoryNoteKind = Literal["skipped", "missing", "cycle", "too_deep", "too_many", "too_large"]

# File names in a folder, in this order. AGENTS.md is often a link to CLAUDE.md; such a file is read once.
NAMES: Final[tuple[tuple[str, MemoryKind], ...]] = (
    ("CLAUDE.md", "project"),
    (".claude/CLAUDE.md", "project"),
    ("AGENTS.md", "project"),
    ("CLAUDE.local.md", "local"),
)
# Below the user's home.
HOME_NAMES: Final = (".claude/CLAUDE.md", ".claude/AGENTS.md")
# Maximum depth of imports (ecosystem 2.5), and maximum number of files: our choice, against abuse.
MAX_DEPTH: Final = 4
MAX_FILES: Final = 100
# Of all files together, in UTF-8: about 250,000 tokens, more than most windows hold. Our choice.
MAX_BYTES: Final = 1_000_000
# Imports are instructions for people and models, which are written in this format. Others are not read: they
# could be settings, keys or transcripts.
IMPORT_SUFFIX: Final = ".md"


class MemoryFile(msgspec.Struct, frozen=True):
    """A file as it was read; `imported_by` is empty if it was found by its name."""

    path: str
    text: str
    kind: MemoryKind
    imported_by: str = ""

    @property
    def digest(self) -> str:
        """Changes when the text changes."""
        return hashlib.sha256(self.text.encode()).hexdigest()


class MemoryNote(msgspec.Struct, frozen=True):
    """A problem with a memory file, for the user."""

    kind: MemoryNoteKind
    path: str
    what: str


class MemoryFiles(msgspec.Struct, frozen=True):
    files: tuple[MemoryFile, ...] = ()
    notes: tuple[MemoryNote, ...] = ()


def default_roots(cwd: Path, home: Path) -> tuple[Path, ...]:
    """The repository around the working directory, or the directory itself; and the user's `~/.claude`."""
    inside = next((folder for folder in (cwd, *cwd.parents) if (folder / ".git").exists()), cwd)
    return inside, home / ".claude"


def find_memory(
    cwd: Path, home: Path, *, roots: tuple[Path, ...] = (), may_read: ReadPermission = allow_all
) -> MemoryFiles:
    """All memory files that apply to this directory."""
    cwd = cwd.resolve()
    reach = ReadScope(roots=roots or default_roots(cwd, home), may_read=may_read)
    loader = MemoryLoader(reach, home)
    for name in HOME_NAMES:
        loader.load(home / name, "user")
    for folder in reversed((cwd, *cwd.parents)):
        if _is_inside(folder, reach.roots):
            loader.load_folder(folder)
    return loader.memory


def _is_inside(folder: Path, roots: Iterable[Path]) -> bool:
    return any(folder.is_relative_to(root.resolve()) for root in roots)


class MemoryLoader:
    """Reads memory files and what they import, each once."""

    def __init__(self, reach: ReadScope, home: Path, known: Iterable[str] = ()) -> None:
        self.reach = reach
        self.home = home
        self._known = set(known)
        self._bytes = 0
        self._files: list[MemoryFile] = []
        self._notes: list[MemoryNote] = []

    @property
    def memory(self) -> MemoryFiles:
        return MemoryFiles(tuple(self._files), tuple(self._notes))

    def load_folder(self, folder: Path, kind: MemoryKind | None = None) -> None:
        for name, usual in NAMES:
            self.load(folder / name, kind or usual)

    def load(self, path: Path, kind: MemoryKind) -> None:
        found = read_confined(path, self.reach)
        if isinstance(found, FileText):
            self._add(found, kind, "", ())
        elif not found.is_missing:
            self._note("skipped", path, found.why)

    def _add(self, found: FileText, kind: MemoryKind, imported_by: str, chain: tuple[str, ...]) -> None:
        name = str(found.path)
        if name in self._known:
            return
        if len(self._files) == MAX_FILES:
            self._note("too_many", found.path, f"not read: the limit is {MAX_FILES} files")
            return
        if self._bytes + (size := len(found.text.encode())) > MAX_BYTES:
            what = f"left out ({size:,} bytes): all memory files together have more than {MAX_BYTES:,} bytes"
            self._note("too_large", found.path, what)
            return
        self._bytes += size
        self._known.add(name)
        self._files.append(MemoryFile(name, found.text, kind, imported_by))
        for spelled in find_imports(found.text):
            self._import(spelled, found.path, kind, (*chain, name))

    def _import(self, spelled: str, importer: Path, kind: MemoryKind, chain: tuple[str, ...]) -> None:
        path = self._place(spelled, importer)
        looks_like_a_path = "/" in spelled or "." in spelled
        found = self._read_import(path, kind)
        if isinstance(found, FileText):
            if str(found.path) in chain:
                self._note("cycle", importer, f"@{spelled} leads back to a file that imports it")
            elif len(chain) > MAX_DEPTH:
                self._note("too_deep", importer, f"@{spelled} is more than {MAX_DEPTH} imports away")
            else:
                self._add(found, kind, str(importer), chain)
        elif looks_like_a_path:
            # "@alice" is often a person and not a file, so only names that look like paths are reported.
            self._note("missing" if found.is_missing else "skipped", importer, f"@{spelled}: {found.why}")

    def _read_import(self, path: Path, kind: MemoryKind) -> FileText | UnreadFile:
        """The user's own files import from the user's folder and the project. Files of a project, and that
        includes CLAUDE.local.md, which may have been committed, import from the project only."""
        if kind == "user":
            return self._as_markdown(read_confined(path, self.reach))
        theirs = msgspec.structs.replace(self.reach, roots=self._roots_of_project())
        return self._as_markdown(read_confined(path, theirs))

    def _roots_of_project(self) -> tuple[Path, ...]:
        own = (self.home / ".claude").resolve()
        return tuple(root for root in self.reach.roots if root.resolve() != own)

    def _as_markdown(self, found: FileText | UnreadFile) -> FileText | UnreadFile:
        if isinstance(found, FileText) and found.path.suffix.lower() != IMPORT_SUFFIX:
            return UnreadFile(f"only {IMPORT_SUFFIX} files can be imported")
        return found

    def _place(self, spelled: str, importer: Path) -> Path:
        if spelled.startswith("~/"):
            return self.home / spelled[2:]
        return importer.parent / spelled

    def _note(self, kind: MemoryNoteKind, path: Path, what: str) -> None:
        note = MemoryNote(kind, str(path), what)
        if note not in self._notes:
            self._notes.append(note)


def folders_between(cwd: Path, file: Path) -> Iterator[Path]:
    """The folders below the working directory, down to the folder of the file; none if it is elsewhere."""
    if file.is_relative_to(cwd):
        parts = file.relative_to(cwd).parts[:-1]
        for count in range(1, len(parts) + 1):
            yield cwd.joinpath(*parts[:count])
