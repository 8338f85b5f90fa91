"""Files that the user or a linter changed: the copy in the conversation is out of date (or deliberate)."""

import re
from typing import Final

import msgspec

from everturn.history.blocks import Block, text_of
from everturn.history.records import Record

_SIGN: Final = b"by the user or by a linter"
_NOTICE: Final = re.compile(r" (?:was|has been) modified, either by the user or by a linter")
_BEFORE_NAME: Final = re.compile(r"[\n\"<>]")
_LONGEST_NAME: Final = 400
_NOTICED: Final = 4_000
_SINCE_READ: Final = "modified since read"
_EDITED: Final = "edited_text_file"
# Work that the user says they did themselves.
_OWN_WORK: Final = re.compile(
    r"\bI(?:'ve| have)?(?: just| also| already| now| manually)? (?:changed|edited|fixed|updated|renamed"
    r"|removed|deleted|reverted|committed|pushed|merged|rebased|reset|moved|added|reformatted|undid|undone"
    r"|rewrote|did a|made a)\b",
    re.IGNORECASE,
)


class _Attached(msgspec.Struct):
    filename: str = ""


_read_attached = msgspec.json.Decoder(_Attached).decode


def files_changed_by_user(block: Block, path: str) -> list[str]:
    """The files that a notice inside this block names. `path` is the file of the call that it answers."""
    # The harness adds its notices behind a result.
    if _SIGN not in block.raw[-_NOTICED:]:
        return []
    text = text_of(block)
    named = [_name_before(text, found.start()) for found in _NOTICE.finditer(text)]
    return [name for name in named if "/" in name or "." in name] or (
        [path] if _SINCE_READ in text and path else []
    )


def _name_before(text: str, end: int) -> str:
    line = _BEFORE_NAME.split(text[max(end - _LONGEST_NAME, 0) : end])[-1]
    return line.strip().removeprefix("Note: ").strip()


def file_attached(record: Record) -> str:
    """The file of the notice that Claude Code attaches when a file was changed elsewhere."""
    if record.kind != "attachment" or record.subtype != _EDITED or not record.blocks:
        return ""
    try:
        return _read_attached(record.blocks[0].raw).filename
    except msgspec.DecodeError:
        return ""


def was_modified_by_user(record: Record) -> bool:
    """Whether the user changed an edit before accepting it."""
    return b'"userModified":true' in record.raw


def own_work(sentence: str) -> bool:
    return _OWN_WORK.search(sentence) is not None
