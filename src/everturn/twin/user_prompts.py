"""Find what the user asked for last, in messages that also hold what clients add (TW-8).

Clients put reminders, command output and summaries of earlier conversations into user messages. None of them
is a request. All functions here take time linear in the text.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from everturn.twin.request_text import extract_text
from everturn.twin.values import ParsedMessage

_REMINDER: Final = ("<system-reminder>", "</system-reminder>")
_SESSION_SUMMARY: Final = ("<session-summary>", "</session-summary>")
# How the message that replaces a summarized conversation starts: Claude Code, and everturn.
_CONTINUATIONS: Final = (
    "This session is being continued from a previous",
    "This session continues an earlier",
)
# What Claude Code sends to continue a turn that was interrupted.
_CONTINUE: Final = "Continue from where you left off."
# Tags without a hyphen or underscore that clients put around text of their own.
_CLIENT_TAGS: Final = frozenset(("channel", "event"))
_MAX_TAG_CHARS: Final = 60
_NOTHING: Final = frozenset(("", "none", "nothing", "no pending tasks", "none yet", "no tasks"))


@dataclass(frozen=True, slots=True)
class UserPrompt:
    """The request that the current turn works on, and the message in which it is."""

    text: str
    at: int = 0
    # The request comes from a summary: parts of it may be done already.
    follows_summary: bool = False


def find_prompt(messages: Sequence[ParsedMessage]) -> UserPrompt:
    """The latest request of the user; after a compaction, the one that the summary lists as pending."""
    for at in range(len(messages) - 1, -1, -1):
        own, summaries = _split_texts(messages[at])
        if own:
            return UserPrompt("\n".join(own), at)
        if summaries:
            return UserPrompt(_pending_request(summaries[-1]), at, follows_summary=True)
    return UserPrompt("")


def strip_reminders(text: str) -> str:
    """Remove the system reminders that clients add to user text and to results."""
    opening, closing = _REMINDER
    kept: list[str] = []
    at = 0
    while (start := text.find(opening, at)) >= 0 and (end := text.find(closing, start)) >= 0:
        kept.append(text[at:start])
        at = end + len(closing)
    kept.append(text[at:])
    return "".join(kept)


def is_from_client(text: str) -> bool:
    """Whether text in a user message starts with a tag of the client, such as `<local-command-stdout>`."""
    name, closed, _ = text[1:_MAX_TAG_CHARS].partition(">")
    name = name.partition(" ")[0]
    if not text.startswith("<") or not closed or not name[:1].isalpha():
        return text.strip() == _CONTINUE
    return "-" in name or "_" in name or name in _CLIENT_TAGS


def extract_summary_text(text: str) -> str | None:
    """The summary of an earlier conversation in a message; None if there is none."""
    opening, closing = _SESSION_SUMMARY
    start = text.find(opening)
    end = text.rfind(closing)
    if 0 <= start < end:
        return text[start + len(opening) : end]
    return text if text.startswith(_CONTINUATIONS) else None


def extract_summarized_requests(text: str) -> list[str] | None:
    """The user messages that a session summary lists; None if the text contains no summary."""
    summary = extract_summary_text(text)
    return None if summary is None else _listed_items(summary, 6)


def _split_texts(message: ParsedMessage) -> tuple[list[str], list[str]]:
    """The user's own texts in a message, and the summaries in it."""
    own: list[str] = []
    summaries: list[str] = []
    for block in message.blocks:
        if block.kind == "compaction" and isinstance(block.body.get("content"), str):
            summaries.append(block.body["content"])
        if block.kind != "text" or message.role != "user":
            continue
        text = strip_reminders(extract_text(block)).strip()
        summary = extract_summary_text(text)
        if summary is not None:
            summaries.append(summary)
        elif text and not is_from_client(text):
            own.append(text)
    return own, summaries


def _pending_request(summary: str) -> str:
    """The last request that a summary lists, unless the summary says that nothing is pending."""
    pending = _section(summary, 7)
    if pending is not None and all(_is_nothing(line) for line in pending):
        return ""
    listed = _listed_items(summary, 6)
    return next((item for item in reversed(listed) if not item.startswith(_CONTINUATIONS)), "")


def _is_nothing(line: str) -> bool:
    return line.strip().lstrip("-* ").rstrip(". ").lower() in _NOTHING


def _listed_items(summary: str, number: int) -> list[str]:
    """The items of a section. An item ends where a line with the same indentation starts the next one."""
    items: list[list[str]] = []
    indent: int | None = None
    for line in _section(summary, number) or ():
        plain = line.lstrip()
        depth = len(line) - len(plain)
        if plain.startswith("- ") and (indent is None or depth <= indent):
            indent = depth
            items.append([plain.removeprefix("- ")])
        elif items:
            items[-1].append(line)
    return ["\n".join(lines).strip() for lines in items]


def _section(summary: str, number: int) -> list[str] | None:
    """The lines of a numbered section without its title; None if there is no such section."""
    lines = iter(summary.splitlines())
    for line in lines:
        if line.startswith(f"{number}. "):
            return list(_until(lines, f"{number + 1}. "))
    return None


def _until(lines: Iterator[str], next_title: str) -> Iterator[str]:
    for line in lines:
        if line.startswith(next_title):
            return
        yield line
