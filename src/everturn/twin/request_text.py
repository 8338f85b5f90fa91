"""What the speakers read out of a request: the last user message, the turn so far, what stands in results.

Only looking, no deciding: what to say is decided in `speaker.py`, `agent.py` and `summarizer.py`.
"""

import random
import re
import string
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Final

from everturn.twin.values import ParsedBlock, ParsedMessage, ParsedRequest

_ALPHABET: Final = string.ascii_letters + string.digits
_ID_LENGTH: Final = 22
# A path with a folder or a known kind of ending; at most 200 characters, so no text makes the search slow.
_PATH: Final = re.compile(
    r"(?<![\w/.:-])(?:~?/|\./)?(?:[\w.-]{1,60}/){0,8}[\w-]{1,60}\.[A-Za-z]{1,5}(?![\w/])"
)
_ENDINGS: Final = re.compile(
    r"(pyi?|ipynb|[jt]sx?|go|rs|c|h|cc|[ch]pp|java|kt|rb|php|cs|swift|scala|sh|sql|html|s?css|vue|svelte|proto"
    r"|md|rst|txt|jsonl?|toml|ya?ml|xml|csv|ini|cfg|lock)",
    re.IGNORECASE,
)
# Long texts are searched in their beginning only; paths cluster there, and time stays bounded.
_SEARCHED: Final = 4_000
_SEARCHED_RECENT: Final = 2_000
_RECENT_BLOCKS: Final = 8
_REMINDER: Final = re.compile(r"<system-reminder>.*?</system-reminder>", re.DOTALL)
# A summary that stands for an earlier conversation, and the list in it of what the person said.
_EARLIER: Final = re.compile(r"<session-summary>(.*)</session-summary>", re.DOTALL)
_ASKED: Final = re.compile(r"^6\. .*\n((?:(?!7\. ).*\n)*)", re.MULTILINE)
_ITEM: Final = "   - "


def new_id(prefix: str, rng: random.Random) -> str:
    """An id as the API makes them: `msg_01...`, `toolu_01...`."""
    return prefix + "01" + "".join(rng.choices(_ALPHABET, k=_ID_LENGTH))


def extract_text(block: ParsedBlock | dict[str, Any]) -> str:
    """The words of a block: its text, or the text inside a result."""
    body = block.body if isinstance(block, ParsedBlock) else block
    if isinstance(body.get("text"), str):
        return body["text"]
    content = body.get("content")
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(extract_text(part) for part in content if isinstance(part, dict))
    return ""


def extract_user_text(message: ParsedMessage) -> str:
    """What a person said in a message: its own text, not the results that travel with it."""
    return "\n".join(extract_text(block) for block in message.blocks if block.kind == "text")


def strip_reminders(text: str) -> str:
    """What programs put beside a person's words is not theirs."""
    return _REMINDER.sub("", text)


def extract_summarized_requests(text: str) -> list[str] | None:
    """What a person had asked, as the summary in this text lists it; None where there is no summary in it."""
    if not (earlier := _EARLIER.search(text)):
        return None
    listed = _ASKED.search(earlier[1] + "\n")
    items = ("\n" + listed[1]).split("\n" + _ITEM)[1:] if listed else []
    return [item.strip() for item in items]


def last_user_text(request: ParsedRequest) -> str:
    """The words of the last user message: its texts and, in a tool loop, its results."""
    for message in reversed(request.messages):
        if message.role == "user":
            return "\n".join(filter(None, (extract_text(block) for block in message.blocks)))
    return ""


def is_summary_request(request: ParsedRequest) -> bool:
    """A client's own compaction prompt asks for a text in summary tags."""
    return bool(request.messages) and "<summary>" in extract_user_text(request.messages[-1])


def find_turn_start(messages: Sequence[ParsedMessage]) -> int:
    """Where the turn starts that is still going: at the last message in which a person says something."""
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].role == "user" and extract_user_text(messages[index]):
            return index
    return 0


# A conversation is sent again with each request; what stood in its last blocks is mostly known already.
@lru_cache(maxsize=4096)
def find_paths(text: str) -> tuple[str, ...]:
    found = (match.group() for match in _PATH.finditer(text))
    return tuple(path for path in found if _ENDINGS.fullmatch(path.rpartition(".")[2]))


def find_all_paths(messages: Iterable[ParsedMessage]) -> list[str]:
    """Every path that was named, in calls, results or words, oldest first, each once."""
    blocks = (block for message in messages for block in message.blocks)
    return _named(blocks, within=_SEARCHED)


def find_recent_paths(messages: Sequence[ParsedMessage]) -> list[str]:
    """Paths near the end of the conversation: the cost does not grow with its length."""
    blocks = [block for message in messages[-_RECENT_BLOCKS:] for block in message.blocks]
    return _named(blocks[-_RECENT_BLOCKS:], within=_SEARCHED_RECENT)


def _named(blocks: Iterable[ParsedBlock], *, within: int) -> list[str]:
    seen: dict[str, None] = {}
    for block in blocks:
        words = str(block.body.get("input", "")) if block.kind == "tool_use" else extract_text(block)
        seen.update(dict.fromkeys(find_paths(words[:within])))
    return list(seen)
