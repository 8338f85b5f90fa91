"""Extract text from a request: user text, tool results, paths, earlier requests.

`speaker.py`, `agent.py` and `summarizer.py` decide what to reply.
"""

import random
import re
import string
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Final

from everturn.twin.values import ParsedBlock, ParsedMessage, ParsedRequest
from everturn.wire.json_values import as_objects

_ALPHABET: Final = string.ascii_letters + string.digits
_ID_LENGTH: Final = 22
# A path with a file extension. All repetitions are bounded, so that no text makes the search slow.
_PATH: Final = re.compile(
    r"(?<![\w/.:-])(?:~?/|\./)?(?:[\w.-]{1,60}/){0,8}[\w-]{1,60}\.[A-Za-z]{1,5}(?![\w/])"
)
_EXTENSIONS: Final = re.compile(
    r"(pyi?|ipynb|[jt]sx?|go|rs|c|h|cc|[ch]pp|java|kt|rb|php|cs|swift|scala|sh|sql|html|s?css|vue|svelte|proto"
    r"|md|rst|txt|jsonl?|toml|ya?ml|xml|csv|ini|cfg|lock)",
    re.IGNORECASE,
)
# Only the beginning of long texts is searched, so that the time is bounded.
_SEARCHED_CHARS: Final = 4_000
_RECENT_SEARCHED_CHARS: Final = 2_000
_RECENT_BLOCKS: Final = 8


def new_id(prefix: str, rng: random.Random) -> str:
    """A random id in the API's format: `msg_01...`, `toolu_01...`."""
    return prefix + "01" + "".join(rng.choices(_ALPHABET, k=_ID_LENGTH))


def extract_text(block: ParsedBlock | dict[str, Any]) -> str:
    """The text of a block: its own, or that of a tool result."""
    body = block.body if isinstance(block, ParsedBlock) else block
    if isinstance(body.get("text"), str):
        return body["text"]
    content = body.get("content")
    if isinstance(content, str):
        return content
    return "\n".join(extract_text(part) for part in as_objects(content))


def extract_user_text(message: ParsedMessage) -> str:
    """The text blocks of a message, without tool results."""
    return "\n".join(extract_text(block) for block in message.blocks if block.kind == "text")


def last_user_text(request: ParsedRequest) -> str:
    """The text of the last user message, including tool results."""
    for message in reversed(request.messages):
        if message.role == "user":
            return "\n".join(filter(None, (extract_text(block) for block in message.blocks)))
    return ""


# Cached, because a conversation sends the same blocks again with each request.
@lru_cache(maxsize=4096)
def find_paths(text: str) -> tuple[str, ...]:
    """The file paths in a text, with a known file extension."""
    found = (match.group() for match in _PATH.finditer(text))
    return tuple(path for path in found if _EXTENSIONS.fullmatch(path.rpartition(".")[2]))


def find_all_paths(messages: Iterable[ParsedMessage]) -> list[str]:
    """Every path in tool calls, results and text, oldest first, without duplicates."""
    blocks = (block for message in messages for block in message.blocks)
    return _collect_paths(blocks, within=_SEARCHED_CHARS)


def find_recent_paths(messages: Sequence[ParsedMessage]) -> list[str]:
    """The paths in the last blocks only, so that the time does not grow with the conversation."""
    blocks = [block for message in messages[-_RECENT_BLOCKS:] for block in message.blocks]
    return _collect_paths(blocks[-_RECENT_BLOCKS:], within=_RECENT_SEARCHED_CHARS)


def _collect_paths(blocks: Iterable[ParsedBlock], *, within: int) -> list[str]:
    seen: dict[str, None] = {}
    for block in blocks:
        text = str(block.body.get("input", "")) if block.kind == "tool_use" else extract_text(block)
        seen.update(dict.fromkeys(find_paths(text[:within])))
    return list(seen)
