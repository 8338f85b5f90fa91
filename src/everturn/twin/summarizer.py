"""Summarize a conversation without a model, by extracting parts of it (TW-8, BY-5).

User messages are quoted, files and errors are listed, the last reply is kept. The nine sections are those
that a client's own compaction prompt asks for, so a client accepts the twin's summary like a model's. Equal
conversations give equal summaries, and each section has a maximum size.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from everturn.measure.tool_table import DEFAULT_TOOL_TABLE
from everturn.twin.request_text import extract_text, extract_user_text, find_all_paths
from everturn.twin.summary_requests import is_summary_prompt
from everturn.twin.user_prompts import (
    HAS_READ,
    extract_files_read,
    extract_own_words,
    extract_summarized_requests,
    strip_reminders,
)
from everturn.twin.values import ParsedBlock, ParsedMessage
from everturn.wire.json_values import as_object

MAX_USER_MESSAGES: Final = 40
MAX_QUOTE: Final = 600
# For text that an earlier summary has quoted already, except the last request, which may still be pending.
MAX_QUOTE_AGAIN: Final = 160
MAX_PATHS: Final = 40
MAX_ERRORS: Final = 12
MAX_TERMS: Final = 20
MAX_LAST: Final = 1500

# Searched in each line by itself: a pattern for the whole line would take quadratic time.
_ERROR: Final = re.compile(r"Error\b|Exception\b|FAILED|error:|fatal:")
_TERM: Final = re.compile(r"\b(?:[a-z]+_[a-z_]+|[A-Z][a-z]+(?:[A-Z][a-z]+)+)\b")
# Only the beginning of a block is searched for errors and terms, so that the time is bounded.
_SEARCHED: Final = 4000
_TAGS: Final = re.compile(r"</?(?:summary|analysis)>")


def summarize(messages: Sequence[ParsedMessage], instructions: str | None = None) -> str:
    """The summary in its tags. It repeats `instructions`, so that a client sees that they arrived."""
    asked = _requests(messages)
    is_pending = _is_pending(messages)
    sections = (
        ("Primary Request and Intent", _quote(asked[:1])),
        ("Key Technical Concepts", _list_latest(_terms(messages), MAX_TERMS)),
        ("Files and Code Sections", _list_latest(find_all_paths(messages), MAX_PATHS)),
        ("Errors and fixes", _list_latest(_errors(messages), MAX_ERRORS)),
        ("Problem Solving", _calls(messages)),
        ("All user messages", _quote(asked[-MAX_USER_MESSAGES:])),
        ("Pending Tasks", _quote(asked[-1:] if is_pending else ())),
        ("Current Work", _current_work(messages, is_pending=is_pending)),
        ("Optional Next Step", "Continue with the last request above." if is_pending else "None."),
    )
    body = "\n\n".join(f"{number}. {title}:\n{text}" for number, (title, text) in enumerate(sections, 1))
    focus = f"Focus asked for: {_clip(instructions, MAX_QUOTE)}\n\n" if instructions else ""
    return f"<summary>\n{focus}{body}\n</summary>"


def summarize_briefly(messages: Sequence[ParsedMessage], max_chars: int) -> str:
    """A short summary: the last request and the last reply, up to `max_chars` characters."""
    parts = [*_requests(messages)[-1:], _last_reply(messages)]
    text = _clip(" / ".join(part for part in parts if part), max(1, max_chars))
    return f"<summary>{text}</summary>"


def _requests(messages: Sequence[ParsedMessage]) -> list[str]:
    """The user's requests, including those that an earlier summary lists.

    The request for this summary may be in the same message as the last one.
    """
    sent = [message for message in messages if message.role == "user"]
    found = [request for message in sent for request in _requests_in(message)]
    return found or [text for message in sent if (text := extract_user_text(message).strip())]


def _is_pending(messages: Sequence[ParsedMessage]) -> bool:
    """Whether the last request is unfinished: no reply without a tool call came after it."""
    replies = [at for at, message in enumerate(messages) if message.role == "assistant"]
    if not replies or any(block.kind == "tool_use" for block in messages[replies[-1]].blocks):
        return True
    return any(
        True
        for message in messages[replies[-1] + 1 :]
        if message.role == "user"
        for _ in _requests_in(message)
    )


def _requests_in(message: ParsedMessage) -> Iterable[str]:
    texts = (extract_text(block) for block in message.blocks if block.kind == "text")
    plain_texts = [
        plain for text in texts if not is_summary_prompt(text) and (plain := _summary_or_own_words(text))
    ]
    *older, last = [
        request for text in plain_texts for request in extract_summarized_requests(text) or ()
    ] or [""]
    yield from (_clip(request, MAX_QUOTE_AGAIN) for request in older)
    yield from filter(None, [last])
    if own := "\n".join(text for text in plain_texts if extract_summarized_requests(text) is None).strip():
        yield own


def _summary_or_own_words(text: str) -> str:
    """An earlier summary as it is; of other texts only what the user typed."""
    plain = strip_reminders(text).strip()
    return extract_own_words(text) if extract_summarized_requests(plain) is None else plain


def _clip(text: str, limit: int) -> str:
    """Text without summary tags, which would end the summary early; marked if it was cut."""
    plain = _TAGS.sub("", text).strip()
    return plain if len(plain) <= limit else plain[:limit] + " [...]"


def _quote(texts: Iterable[str]) -> str:
    return "\n".join(f"   - {_clip(text, MAX_QUOTE)}" for text in texts) or "   - None."


def _list_latest(items: Iterable[str], limit: int) -> str:
    """The latest items, up to the limit."""
    return _quote(list(dict.fromkeys(items))[-limit:])


def _blocks(messages: Iterable[ParsedMessage]) -> Iterable[ParsedBlock]:
    return (block for message in messages for block in message.blocks)


def _errors(messages: Sequence[ParsedMessage]) -> list[str]:
    results = (block for block in _blocks(messages) if block.kind == "tool_result")
    return [line.strip() for block in results for line in _error_lines(block)]


def _error_lines(block: ParsedBlock) -> list[str]:
    text = extract_text(block)[:_SEARCHED]
    found = [line for line in text.split("\n") if _ERROR.search(line)]
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


def _current_work(messages: Sequence[ParsedMessage], *, is_pending: bool) -> str:
    """The last reply, and what was read for a request that is not finished: nothing is read twice for it."""
    read = _files_read(messages) if is_pending else []
    lines = [f"   {HAS_READ}{_clip(path, MAX_QUOTE)}" for path in read[:MAX_PATHS]]
    return "\n".join(filter(None, [_clip(_last_reply(messages), MAX_LAST), *lines])) or "None."


def _files_read(messages: Sequence[ParsedMessage]) -> list[str]:
    """The files read since the last request of the user, the first one first."""
    found: list[str] = []
    for message in reversed(messages):
        if message.role == "assistant":
            found[:0] = [path for block in message.blocks if (path := _read_path(block))]
        elif any(True for _ in _requests_in(message)):
            texts = (extract_text(block) for block in message.blocks if block.kind == "text")
            found[:0] = [path for text in texts for path in extract_files_read(text)]
            break
    return list(dict.fromkeys(found))


def _read_path(block: ParsedBlock) -> str:
    row = DEFAULT_TOOL_TABLE.find(str(block.body.get("name")))
    if block.kind != "tool_use" or row.does != "reads":
        return ""
    given = as_object(block.body.get("input"))
    return next((path for name in row.path if isinstance(path := given.get(name), str)), "")


def _last_reply(messages: Sequence[ParsedMessage]) -> str:
    for message in reversed(messages):
        text = extract_user_text(message).strip()
        if message.role == "assistant" and text:
            return text
    return ""
