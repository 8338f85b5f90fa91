"""Write files that only their owner can read, without following links (S09, S10).

A transcript may be in a folder that came with a project. A link in that folder could lead a write to a file
elsewhere, so links are refused. For reading below allowed folders, see `files.py`.
"""

import os
from pathlib import Path

from everturn.errors import StoreError
from everturn.safe_files import make_folder, open_folder, write_file


def write_private_file(folder: Path, name: str, data: bytes) -> Path:
    """Write a file into the session's folder. Raises `OSError`, which says so if a link is the cause."""
    if not folder.exists():
        make_folder(folder)
    at = open_folder(folder)
    try:
        write_file(name, data, folder_fd=at)
    finally:
        os.close(at)
    return folder / name


def replace_file(path: str, data: bytes) -> str:
    """Replace a small file atomically. Returns why that failed, or ""."""
    beside = f"{path}.new"
    try:
        write_file(beside, data)
        os.replace(beside, path)
    except OSError as problem:
        return f"{path} could not be written: {problem.strerror or problem}"
    return ""


def write_blob(folder: Path, name: str, data: bytes) -> str:
    """Write a file in the folder; directories in the name are ignored. Raises `StoreError`."""
    path = folder / Path(name).name
    try:
        write_private_file(folder, path.name, data)
    except OSError as problem:
        raise StoreError(f"{path} could not be written: {problem.strerror or problem}.") from problem
    return str(path)
