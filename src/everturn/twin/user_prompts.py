"""Find what the user asked for last, in messages that also hold what clients add (TW-8).

Clients put reminders, command output and summaries of earlier conversations into user messages. None of them
is a request. All functions here take time linear in the text.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from everturn.decide.authorship import typed_words, without_wrapped
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
# Commands of the client itself: they are done, and ask the model for nothing.
_TYPED_COMMANDS: Final = ("<command-", "<bash-")
# How a summary of the twin lists what was read for the request that is pending.
HAS_READ: Final = "- Has been read: "
_NOTHING: Final = frozenset(("", "none", "nothing", "no pending tasks", "none yet", "no tasks"))


@dataclass(frozen=True, slots=True)
class UserPrompt:
    """The request that the current turn works on, and the message in which it is."""

    text: str
    at: int = 0
    # The request comes from a summary: parts of it may be done already.
    follows_summary: bool = False
    # Files that were read for it before the summary.
    files_read: tuple[str, ...] = ()


def find_prompt(messages: Sequence[ParsedMessage]) -> UserPrompt:
    """The latest request of the user; after a compaction, the one that the summary lists as pending."""
    for at in range(len(messages) - 1, -1, -1):
        if messages[at].kinds.isdisjoint(("text", "compaction")):
            continue
        own, summaries = _split_texts(messages[at])
        if own:
            return UserPrompt("\n".join(own), at)
        if summaries:
            return UserPrompt(_pending_request(summaries[-1]), at, True, extract_files_read(summaries[-1]))
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


def extract_own_words(text: str) -> str:
    """What the user typed in a text of a user message; "" if a client wrote all of it.

    Clients wrap what they add in tags. What is wrapped can hold a closing tag of its own, so words begin
    after the last one, and end where a reminder starts.
    """
    opening, closing = _REMINDER
    if text.lstrip().startswith(_TYPED_COMMANDS) or text.strip() == _CONTINUE:
        return ""
    words = without_wrapped(typed_words(text))
    before, _, rest = words.partition(opening)
    return f"{before}{rest.rpartition(closing)[2] if closing in rest else ''}".rpartition(closing)[2].strip()


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


def extract_files_read(summary: str) -> tuple[str, ...]:
    """The files that a summary of the twin lists as read for the request that is pending."""
    lines = (line.strip() for line in _section(summary, 8) or ())
    return tuple(line.removeprefix(HAS_READ) for line in lines if line.startswith(HAS_READ))


def _split_texts(message: ParsedMessage) -> tuple[list[str], list[str]]:
    """The user's own texts in a message, and the summaries in it."""
    own: list[str] = []
    summaries: list[str] = []
    for block in message.blocks:
        if block.kind == "compaction" and isinstance(block.body.get("content"), str):
            summaries.append(block.body["content"])
        if block.kind != "text" or message.role != "user":
            continue
        text = extract_text(block)
        summary = extract_summary_text(strip_reminders(text).strip())
        if summary is not None:
            summaries.append(summary)
        elif words := extract_own_words(text):
            own.append(words)
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
