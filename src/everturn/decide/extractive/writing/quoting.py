"""Quoting, so that data stays data (CP-33).

Text from files and tools has a prefix on every line; no kind of line break can escape it. Tags that could
close or open the wrapper of a summary are escaped whatever their source, once: escaping an escaped text
changes nothing.
"""

import re
from collections.abc import Iterable
from typing import Final

from everturn.view.fragments.escaping import SUMMARY_TAG

ITEM, INSIDE = "   - ", "     "
MARK: Final = "> "
# Less indented than any line of a quote, so that no quoted text can look like it.
_LESS: Final = "    "
ANSWERING, ABOUT = "in reply to", "about"
_BELOW: Final = re.compile(rf"\n{_LESS}(?:{ANSWERING}|{ABOUT}): ")

# The tags around summaries, reminders and tool calls, ours and the provider's.
_TAG: Final = re.compile(
    rf"<(?=\s*/?\s*(?:{SUMMARY_TAG}|summary|analysis|system-reminder|system"
    r"|(?:\w+:)?(?:function_calls?|invoke|parameter|tool_use|tool_call|tool_result))\b)",
    re.IGNORECASE,
)
_CUT: Final = re.compile(r" ?\[… ([\d,]+) characters left out …\] ?")
# Part of a cut message is still useful: two thirds of the limit from its beginning, one third from its end.
_HEAD: Final = 2 / 3


def escaped(text: str) -> str:
    return _TAG.sub("&lt;", text)


def quote(text: str) -> str:
    """Words that somebody said, with every line after the first indented. To read it back: `unquoted`."""
    return '"' + indent(escaped(text)) + '"'


def unquoted(text: str) -> str:
    """The input of `quote`, with tags still escaped."""
    inner = text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text
    return "\n".join(line.removeprefix(INSIDE) for line in inner.split("\n"))


def with_about(entry: str, about: str, label: str = ANSWERING) -> str:
    """An entry, and below it the words that are needed to understand it. To read it back: `split_about`."""
    return f"{entry}\n{_LESS}{label}: {quote(about)}" if about else entry


def about_cost(about: str) -> int:
    return len(with_about("", about))


def split_about(entry: str) -> tuple[str, str]:
    found = _BELOW.search(entry)
    return (entry[: found.start()], unquoted(entry[found.end() :])) if found else (entry, "")


def indent(text: str) -> str:
    first, *rest = text.split("\n")
    return "\n".join([first, *(INSIDE + line if line else line for line in rest)])


def one_line(text: str) -> str:
    return " ".join(escaped(text).split())


def prefix_lines(lines: Iterable[str]) -> str:
    """Quoted data: a prefix on every line."""
    return "\n".join(f"{INSIDE}{MARK}{line}" for text in lines for line in escaped(text).splitlines())


def original_length(text: str) -> int:
    """The length of a text before anything of it was left out."""
    return shown_length(text) + sum(_number(count) for count in _CUT.findall(text))


def shown_length(text: str) -> int:
    """How much of it is still there, not counting the omission notes."""
    return len(_CUT.sub("", text))


def is_cut(text: str) -> bool:
    return _CUT.search(text) is not None


def shortened(text: str, limit: int) -> str:
    """Beginning and end of a text within about `limit` characters, and the number of
    characters left out between.

    Shortening again includes what was left out before; a text that would not become shorter is unchanged.
    """
    if len(text) <= limit:
        return text
    pieces = _CUT.split(text)
    keep_head = int(limit * _HEAD)
    head = pieces[0][:keep_head].rstrip()
    keep_end = max(0, limit - keep_head)
    end = pieces[-1][len(pieces[-1]) - keep_end :].lstrip() if keep_end < len(pieces[-1]) else pieces[-1]
    gone = original_length(text) - len(head) - len(end)
    cut = f"{head} [… {gone:,} characters left out …] {end}"
    return cut if len(cut) < len(text) else text


def clipped(text: str, limit: int) -> str:
    """One line of a text, cut at its end with the same note."""
    line = one_line(text)
    return (
        line
        if len(line) <= limit
        else f"{line[:limit].rstrip()} [… {len(line) - limit:,} characters left out …]"
    )


def _number(digits: str) -> int:
    return int(digits.replace(",", ""))
