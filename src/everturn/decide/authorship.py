"""Whose words a text is: only what a person typed can become a rule or a request (S13).

Programs put texts of others into messages with the role "user": output of commands, messages of other agents,
events, reminders, the file that is open in an editor. Each stands in a wrapper, `<bash-stdout>...`. New
wrappers appear with every version of every program, so the list here is of those that people typed: a text
that begins with any other tag is not the user's. Text that a person pasted counts as theirs.
"""

import re
from typing import Final

# A tag at the beginning of a line. Invisible letters before it do not hide it.
_INVISIBLE: Final = " \t\r\n\ufeff\u200b\u200c\u200d\u200e\u200f\u2060"
_TAG: Final = re.compile(r"<([A-Za-z][\w.:-]{0,100})(?=[\s/>])")
_TAG_IN_LINE: Final = re.compile(
    rf"^[{_INVISIBLE.replace(chr(10), '')}]{{0,20}}<([A-Za-z][\w.:-]{{0,100}})(?=[\s/>])", re.M
)
_INTERRUPTED: Final = re.compile(r"\[Request interrupted by user[^\]]*\]\s*\Z")
# A slash command or a shell line that a person typed, as Claude Code wraps it.
_COMMAND_TAGS: Final = frozenset({"command-name", "command-message", "command-args"})
# What programs put before a person's words in the same text. The words begin after the last closing tag:
# what is inside may hold one too.
_BEFORE_WORDS: Final = re.compile(r"system-reminder\Z|ide_\w+\Z")
MAX_WRAPPERS: Final = 20
# Elements of web pages, which people type and paste. None of them is a wrapper of a program.
_HTML: Final = frozenset(
    ("a", "abbr", "article", "aside", "b", "blockquote", "body", "br", "button", "canvas", "code", "dd",
     "div", "dl", "dt", "em", "fieldset", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6",
     "head", "header", "hr", "html", "i", "iframe", "img", "input", "label", "legend", "li", "link",
     "main", "meta", "nav", "ol", "option", "p", "pre", "script", "section", "select", "small", "span",
     "strong", "style", "sub", "sup", "svg", "table", "tbody", "td", "template", "textarea", "tfoot",
     "th", "thead", "tr", "ul", "video")
)  # fmt: skip


def typed_words(text: str) -> str:
    """What a person typed in a text block; "" if none of it is."""
    words = text.strip().strip(_INVISIBLE)
    for _ in range(MAX_WRAPPERS):
        tag = _TAG.match(words)
        if tag is None or tag[1].lower() in _HTML:
            return "" if _INTERRUPTED.match(words) else words
        if tag[1] in _COMMAND_TAGS:
            return f"{_part(words, 'command-name')} {_part(words, 'command-args')}".strip()
        if tag[1] == "bash-input":
            return f"! {_part(words, 'bash-input')}"
        if not _BEFORE_WORDS.match(tag[1]):
            return ""
        _, closed, after = words.rpartition(f"</{tag[1]}>")
        words = after.strip(_INVISIBLE) if closed else ""
    return ""


def _part(words: str, name: str) -> str:
    _, opened, after = words.partition(f"<{name}>")
    return after.partition(f"</{name}>")[0].strip() if opened else ""


def without_wrapped(words: str) -> str:
    """Typed words without what programs added among them: from a line that begins with a tag to the last
    closing tag of that name, or to the end."""
    kept: list[str] = []
    at = 0
    for _ in range(MAX_WRAPPERS):
        tag = next((each for each in _TAG_IN_LINE.finditer(words, at) if each[1].lower() not in _HTML), None)
        if tag is None:
            return "\n".join([*kept, words[at:]])
        kept.append(words[at : tag.start()])
        closing = words.rfind(f"</{tag[1]}>", tag.end())
        if closing < 0:
            return "\n".join(kept)
        at = closing + len(tag[1]) + 3
    return "\n".join(kept)


AGENT_LABEL: Final = "[pinned by the agent, not by the user]"


def label_agent_pin(text: str) -> str:
    """A text that an agent pinned for itself, on one line: a second one would have no label."""
    return f"{AGENT_LABEL} {' '.join(text.split())}"
