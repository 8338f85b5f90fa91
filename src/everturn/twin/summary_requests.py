"""Recognise a client's request for a summary by its prompt (BY-5, TW-8).

A prompt is recognised by sentences that only it has, in a text block of the last user message. Other text
that contains `<summary>` is not a prompt: users and tool results may contain it for any reason.
"""

from collections.abc import Callable
from typing import Final

from everturn.twin.request_text import extract_text
from everturn.twin.user_prompts import strip_reminders
from everturn.twin.values import ParsedRequest
from everturn.view.fragments.summary_prompt import repair_prompt, summary_prompt

# The first sentences of everturn's own prompts, taken from the prompts themselves.
_EVERTURN: Final = summary_prompt("full").partition("\n\n")[0]
_EVERTURN_REPAIR: Final = repair_prompt("\0").partition("\0")[0]
# Claude Code 2.1: this sentence follows rules about tools; in older versions it comes first.
_CLAUDE_CODE: Final = "Your task is to create a detailed summary of "
_CLAUDE_CODE_WITHIN: Final = 2_000
# The default prompt of the API's compaction, which SDKs before 1.0 sent themselves.
_API: Final = "You have been working on the task described above but have not yet completed it."


def find_summary_prompt(request: ParsedRequest) -> str | None:
    """The prompt for a summary in the last user message; None if there is none."""
    last = next((message for message in reversed(request.messages) if message.role != "system"), None)
    if last is None or last.role != "user":
        return None
    texts = (extract_text(block) for block in last.blocks if block.kind == "text")
    return next((text for text in texts if is_summary_prompt(text)), None)


def is_summary_prompt(text: str) -> bool:
    """Whether a text is one of the known prompts for a summary."""
    plain = strip_reminders(text).strip()
    return "<summary>" in plain and any(matches(plain) for matches in _PROMPTS)


def _is_claude_code(text: str) -> bool:
    start = text[:_CLAUDE_CODE_WITHIN]
    return start.startswith(_CLAUDE_CODE) or f"\n{_CLAUDE_CODE}" in start


_PROMPTS: Final[tuple[Callable[[str], bool], ...]] = (
    lambda text: text.startswith((_EVERTURN, _EVERTURN_REPAIR)),
    _is_claude_code,
    lambda text: text.startswith(_API),
)
