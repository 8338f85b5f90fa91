"""A summary without a model: what stands in the conversation already, put in order (TW-8, BY-5).

Nothing is invented. People's words are quoted, files and errors are listed, the last exchange is kept. The
nine sections are those that a client's own compaction prompt asks for, so a summary from the twin passes
wherever a model's would. Equal conversations give equal summaries, and each section is bounded.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from everturn.twin.request_text import (
    extract_summarized_requests,
    extract_text,
    extract_user_text,
    find_all_paths,
    strip_reminders,
)
from everturn.twin.values import ParsedBlock, ParsedMessage

MAX_USER_MESSAGES: Final = 40
MAX_QUOTE: Final = 600
# Of words that an earlier summary has already quoted; what was asked last may still have to be done.
MAX_QUOTE_AGAIN: Final = 160
MAX_PATHS: Final = 40
MAX_ERRORS: Final = 12
MAX_TERMS: Final = 20
MAX_LAST: Final = 1500

_ERROR: Final = re.compile(r"^.*(?:\w*Error\b|\w*Exception\b|FAILED|error:|fatal:).*$", re.MULTILINE)
_TERM: Final = re.compile(r"\b(?:[a-z]+_[a-z_]+|[A-Z][a-z]+(?:[A-Z][a-z]+)+)\b")
# Where errors and terms are looked for in one block: its beginning, so that time stays bounded.
_SEARCHED: Final = 4000
_TAGS: Final = re.compile(r"</?(?:summary|analysis)>")


def summarize(messages: Sequence[ParsedMessage], instructions: str | None = None) -> str:
    """The summary in its tags. `instructions` are named in it, so that a client sees that they arrived."""
    asked = _asked(messages)
    sections = (
        ("Primary Request and Intent", _quote(asked[:1])),
        ("Key Technical Concepts", _listed(_terms(messages), MAX_TERMS)),
        ("Files and Code Sections", _listed(find_all_paths(messages), MAX_PATHS)),
        ("Errors and fixes", _listed(_errors(messages), MAX_ERRORS)),
        ("Problem Solving", _calls(messages)),
        ("All user messages", _quote(asked[-MAX_USER_MESSAGES:])),
        ("Pending Tasks", _quote(asked[-1:])),
        ("Current Work", _clipped(_last_words(messages), MAX_LAST) or "None."),
        ("Optional Next Step", "Continue with the last request above."),
    )
    body = "\n\n".join(f"{number}. {title}:\n{text}" for number, (title, text) in enumerate(sections, 1))
    focus = f"Focus asked for: {_clipped(instructions, MAX_QUOTE)}\n\n" if instructions else ""
    return f"<summary>\n{focus}{body}\n</summary>"


def summarize_briefly(messages: Sequence[ParsedMessage], room: int) -> str:
    """As much as so many characters hold: what was asked last, and what was said to it."""
    parts = [*_asked(messages)[-1:], _last_words(messages)]
    words = _clipped(" / ".join(part for part in parts if part), max(1, room))
    return f"<summary>{words}</summary>"


def _asked(messages: Sequence[ParsedMessage]) -> list[str]:
    """What people said. The request for this summary may stand in one message with their last words; an
    earlier summary brings what it listed."""
    spoken = [message for message in messages if message.role == "user"]
    found = [words for message in spoken for words in _said_in(message)]
    return found or [words for message in spoken if (words := extract_user_text(message).strip())]


def _said_in(message: ParsedMessage) -> Iterable[str]:
    texts = (extract_text(block) for block in message.blocks if block.kind == "text")
    words = [strip_reminders(text).strip() for text in texts if "<summary>" not in text]
    *older, last = [said for text in words for said in extract_summarized_requests(text) or ()] or [""]
    yield from (_clipped(said, MAX_QUOTE_AGAIN) for said in older)
    yield from filter(None, [last])
    if plain := "\n".join(text for text in words if extract_summarized_requests(text) is None).strip():
        yield plain


def _clipped(text: str, limit: int) -> str:
    """Text that cannot close the summary early, and that ends visibly when it was cut."""
    plain = _TAGS.sub("", text).strip()
    return plain if len(plain) <= limit else plain[:limit] + " [...]"


def _quote(texts: Iterable[str]) -> str:
    return "\n".join(f"   - {_clipped(text, MAX_QUOTE)}" for text in texts) or "   - None."


def _listed(items: Iterable[str], limit: int) -> str:
    """The latest items: what is recent matters more, and the list is bounded."""
    return _quote(list(dict.fromkeys(items))[-limit:])


def _blocks(messages: Iterable[ParsedMessage]) -> Iterable[ParsedBlock]:
    return (block for message in messages for block in message.blocks)


def _errors(messages: Sequence[ParsedMessage]) -> list[str]:
    results = (block for block in _blocks(messages) if block.kind == "tool_result")
    return [line.strip() for block in results for line in _error_lines(block)]


def _error_lines(block: ParsedBlock) -> list[str]:
    text = extract_text(block)[:_SEARCHED]
    found = _ERROR.findall(text)
    return found or ([text] if block.body.get("is_error") and text else [])


def _terms(messages: Sequence[ParsedMessage]) -> list[str]:
    texts = (extract_text(block)[:_SEARCHED] for block in _blocks(messages) if block.kind == "text")
    return [term for text in texts for term in _TERM.findall(text)]


def _calls(messages: Sequence[ParsedMessage]) -> str:
    names: dict[str, int] = {}
    for block in _blocks(messages):
        if block.kind == "tool_use":
            name = str(block.body.get("name"))
            names[name] = names.get(name, 0) + 1
    return (
        "\n".join(f"   - {name}: {count} calls" for name, count in names.items()) or "   - No tool was used."
    )


def _last_words(messages: Sequence[ParsedMessage]) -> str:
    for message in reversed(messages):
        words = extract_user_text(message).strip()
        if message.role == "assistant" and words:
            return words
    return ""
