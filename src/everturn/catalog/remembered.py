"""Sessions outside of the usual places whose short id was shown: a later command must find them by it.

The file is a cache with nothing but paths. It is bounded, belongs to its owner alone, and whatever is wrong
with it is not worth a message.
"""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from everturn.safe_files import make_folder, read_file, replace_file

MAX_REMEMBERED: Final = 500
_NAME: Final = "shown-sessions.json"
_MAX_BYTES: Final = 4 << 20


def load_remembered(cache: Path) -> list[Path]:
    try:
        listed = msgspec.json.decode(read_file(cache / _NAME, max_bytes=_MAX_BYTES), type=list[str])
    except (OSError, ValueError, msgspec.MsgspecError):
        return []
    return [Path(each) for each in listed]


def remember(cache: Path, paths: Iterable[Path]) -> None:
    """Keep these paths, the newest first."""
    known = load_remembered(cache)
    kept = [each for each in dict.fromkeys([*paths, *known]) if _is_utf8(each)][:MAX_REMEMBERED]
    if kept == known:
        return
    with suppress(OSError, UnicodeError, msgspec.MsgspecError):
        make_folder(cache)
        replace_file(cache / _NAME, msgspec.json.encode([str(each) for each in kept]))


def _is_utf8(path: Path) -> bool:
    """JSON has no other names. A path is a text with lone surrogates for what is no UTF-8."""
    return not any("\ud800" <= each <= "\udfff" for each in str(path))
