"""Write the files of large results again that somebody has deleted: the model is pointed to them.

The transcript has their text. Only files in the folder of the session are written: a path in a transcript may
have been written by anybody.
"""

import os
from collections.abc import Iterable
from pathlib import Path

from everturn.errors import EverturnError
from everturn.history.blocks import text_of
from everturn.history.edits import Offloaded
from everturn.history.records import Record
from everturn.session.store.protocol import Store


def restore_files(records: Iterable[Record], store: Store) -> str:
    """Returns why a file could not be written, or "". What is there stays as it is."""
    records = tuple(records)
    missing = {
        record.edit.call: record.edit.path
        for record in records
        if isinstance(record.edit, Offloaded) and _is_missing(record.edit.path, store.blob_folder)
    }
    if not missing:
        return ""
    for record in records:
        for block in record.blocks:
            if block.is_result and (path := missing.pop(block.call, "")):
                try:
                    store.write_blob(Path(path).name, text_of(block).encode("utf-8", "surrogatepass"))
                except EverturnError as problem:
                    return str(problem)
    return ""


def _is_missing(path: str, folder: str) -> bool:
    return os.path.dirname(path) == folder and not os.path.lexists(path)
