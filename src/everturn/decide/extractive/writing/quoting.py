"""Quoting, so that data stays data (CP-33).

What comes from files and tools stands behind a mark on every line; there is no line break, of whatever
spelling, with which it could leave that place. Tags that could close or open the wrapper of a summary are
escaped wherever they come from, once: escaping an escaped text changes nothing.
"""

import re
from collections.abc import Iterable
from typing import Final

from everturn.view.fragments.escaping import SUMMARY_TAG

ITEM, INSIDE = "   - ", "     "
MARK: Final = "> "

# What summaries, reminders and tool calls are wrapped in, ours and the provider's.
_TAG: Final = re.compile(
    rf"<(?=\s*/?\s*(?:{SUMMARY_TAG}|summary|analysis|system-reminder|system"
    r"|(?:\w+:)?(?:function_calls?|invoke|parameter|tool_use|tool_call|tool_result))\b)",
    re.IGNORECASE,
)
_CUT: Final = re.compile(r" ?\[… ([\d,]+) characters left out …\] ?")
# The rest of a cut message is still worth showing: two thirds of what fits from its head, one from its end.
_HEAD: Final = 2 / 3


def escaped(text: str) -> str:
    return _TAG.sub("&lt;", text)


def quote(text: str) -> str:
    """Words somebody said, with every line after the first set in. Reading back: `unquoted`."""
    return '"' + set_in(escaped(text)) + '"'


def unquoted(text: str) -> str:
    """What `quote` was given, with tags still escaped."""
    inner = text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text
    return "\n".join(line.removeprefix(INSIDE) for line in inner.split("\n"))


def set_in(text: str) -> str:
    first, *rest = text.split("\n")
    return "\n".join([first, *(INSIDE + line if line else line for line in rest)])


def one_line(text: str) -> str:
    return " ".join(escaped(text).split())


def marked(lines: Iterable[str]) -> str:
    """Quoted data: every line behind its mark."""
    return "\n".join(f"{INSIDE}{MARK}{line}" for text in lines for line in escaped(text).splitlines())


def original_length(text: str) -> int:
    """How long a text was before anything of it was left out."""
    return shown_length(text) + sum(_number(count) for count in _CUT.findall(text))


def shown_length(text: str) -> int:
    """How much of it is still there, the marks not counted."""
    return len(_CUT.sub("", text))


def is_cut(text: str) -> bool:
    return _CUT.search(text) is not None


def shortened(text: str, limit: int) -> str:
    """Head and end of a text within about `limit` characters, and between them how many are left out.

    Shortening again counts what was left out before; a text that would not become shorter stays.
    """
    if len(text) <= limit:
        return text
    pieces = _CUT.split(text)
    keep_head = int(limit * _HEAD)
    head = pieces[0][:keep_head].rstrip()
    keep_end = max(0, limit - keep_head)
    end = pieces[-1][len(pieces[-1]) - keep_end :].lstrip() if keep_end < len(pieces[-1]) else pieces[-1]
    if len(pieces) == 1 and len(head) + len(end) >= len(text):
        return text
    gone = original_length(text) - len(head) - len(end)
    cut = f"{head} [… {gone:,} characters left out …] {end}"
    return cut if len(cut) < len(text) else text


def clipped(text: str, limit: int) -> str:
    """One line of a text, cut at its end with the same mark."""
    line = one_line(text)
    return (
        line
        if len(line) <= limit
        else f"{line[:limit].rstrip()} [… {len(line) - limit:,} characters left out …]"
    )


def _number(digits: str) -> int:
    return int(digits.replace(",", ""))
