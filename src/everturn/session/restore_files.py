"""Write the files of large results again that are missing, cut or changed: the model is pointed to them.

The transcript has their text, so each file is read and compared with it: a power cut can leave a file empty
or with zeros, because it is not synced, and any program can write to it. The files hold no more than the
transcript, which was read and parsed before: comparing 200 MB adds 0.1 s to an opening of 2 s. Only files in
the folder of the session are written: a path in a transcript may have been written by anybody.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from everturn.errors import EverturnError
from everturn.history.blocks import Block, text_of
from everturn.history.edits import Offloaded
from everturn.history.records import Record
from everturn.safe_files import open_file
from everturn.session.store.protocol import Store
from everturn.session.valid_text import replace_lone_surrogates
from everturn.terminal_text import printable

_CHUNK: Final = 1 << 20


def restore_files(records: Iterable[Record], store: Store) -> str:
    """Returns what the model cannot read and why, or ""."""
    # A folder whose name is not UTF-8 is recorded without what JSON does not take.
    folder = replace_lone_surrogates(store.blob_folder)
    problems, elsewhere = list[str](), list[str]()
    for path, result in _find_offloaded(tuple(records)).items():
        if os.path.dirname(path) != folder:
            elsewhere += [] if os.path.lexists(path) else [path]
        elif result is not None and (problem := _restore(os.path.basename(path), result, store)):
            problems.append(problem)
    return problems[0] if problems else _describe_missing(elsewhere)


def _describe_missing(elsewhere: Sequence[str]) -> str:
    if not elsewhere:
        return ""
    more = f" (and {len(elsewhere) - 1:,} more)" if len(elsewhere) > 1 else ""
    return (
        f"the file of a large result does not exist, and the model cannot read it: {printable(elsewhere[0])}"
        f"{more}; if the session was moved or copied, put the folder of this file there again"
    )


def _find_offloaded(records: Sequence[Record]) -> Mapping[str, Block | None]:
    """The files that the model is pointed to, each with its result: the newest one before the edit, since
    providers may repeat the ids of calls."""
    found: dict[str, Block | None] = {}
    if not any(isinstance(record.edit, Offloaded) for record in records):
        return found
    results: dict[str, Block] = {}
    for record in records:
        results.update((block.call, block) for block in record.blocks if block.is_result)
        if isinstance(record.edit, Offloaded):
            found[record.edit.path] = results.get(record.edit.call)
    return found


def _restore(name: str, result: Block, store: Store) -> str:
    data = text_of(result).encode("utf-8", "surrogatepass")
    try:
        if not _holds(os.path.join(store.blob_folder, name), data):
            store.write_blob(Path(name).name, data)
    except (EverturnError, ValueError) as problem:
        # ValueError: a NUL byte in the name.
        return str(problem)
    return ""


def _holds(path: str, data: bytes) -> bool:
    """Whether this is a regular file with exactly this content."""
    try:
        fd = open_file(path, follow=False)
    except (OSError, ValueError):
        return False
    try:
        if os.fstat(fd).st_size != len(data):
            return False
        # Also behind the last byte: the file may have grown meanwhile.
        return all(os.read(fd, _CHUNK) == data[at : at + _CHUNK] for at in range(0, len(data) + 1, _CHUNK))
    except OSError:
        return False
    finally:
        os.close(fd)
