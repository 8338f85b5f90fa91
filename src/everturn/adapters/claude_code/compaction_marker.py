"""State kept between two hooks: a marker written before a compaction, one file per session.

Stored in the XDG state folder, readable by the owner only. `restore.py` uses it after the compaction.
"""

import contextlib
import os
from collections.abc import Mapping

from everturn.adapters.claude_code.quick_json import decode, get_text
from everturn.adapters.claude_code.transcript_tail import read_last_uuid
from everturn.safe_files import make_folder, read_file, replace_file

# Safe in file names on every file system.
FILE_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")


def state_folder(environment: Mapping[str, str]) -> str:
    state = environment.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(state, "everturn", "claude-code")


def session_file_name(payload: object) -> str:
    """The session id as a file name. An id that looks like a path is not used."""
    given = get_text(payload, "session_id")
    return (
        given if given and len(given) <= 100 and FILE_NAME_CHARACTERS.issuperset(given) else "unknown-session"
    )


def write_marker(payload: object, folder: str, now: float) -> str:
    """Save the size and the last uuid of the transcript; returns the path of the marker."""
    import json

    transcript = get_text(payload, "transcript_path")
    marker = {
        "transcript_path": transcript,
        "size": _size(transcript),
        "last_uuid": read_last_uuid(transcript),
        "trigger": get_text(payload, "trigger"),
        "custom_instructions": get_text(payload, "custom_instructions"),
        "at": now,
    }
    path = _path(payload, folder)
    write_private(path, json.dumps(marker, indent=1))
    return path


def read_marker(payload: object, folder: str) -> object:
    """The marker of this session; None if there is none or it cannot be parsed."""
    try:
        return decode(read_file(_path(payload, folder)).decode())
    except (OSError, ValueError):
        return None


def delete_marker(payload: object, folder: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(_path(payload, folder))


def write_private(path: str, words: str) -> None:
    """Write a file atomically, readable by the owner only."""
    make_folder(os.path.dirname(path))
    replace_file(path, words.encode("utf-8", "surrogatepass"))


def _path(payload: object, folder: str) -> str:
    return os.path.join(folder, f"{session_file_name(payload)}.json")


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except (OSError, ValueError):
        return 0
