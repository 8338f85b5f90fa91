"""Usage computed from the body of a request in the simplest way, to compare with the twin's (TW-12).

Nothing of the twin is imported: sections, hidden tokens and the invalidation matrix are implemented again
here, with complete values instead of digests. Tokens are the characters of the block's JSON; the twin is
configured to count in the same way.
"""

import json
from typing import Any

from measure.naive_cache import NaiveBlock, NaiveCache

TURN = 4
TRAILING = 3
# Without and with a forced tool choice.
TOOL_PROMPT = {"claude-opus-5": (286, 406), "claude-opus-4-8": (290, 410)}


def naive_tokens(body: dict[str, Any]) -> int:
    return len(json.dumps({k: v for k, v in body.items() if k != "cache_control"}, sort_keys=True))


class NaiveTwin:
    def __init__(self, minimum: int):
        self.cache = NaiveCache()
        self.minimum = minimum

    def usage(self, key: str, body: dict[str, Any], now: float) -> tuple[int, int, int, int]:
        blocks = linear(body)
        if "cache_control" in body:
            mark_last(blocks, body["cache_control"])
        scope = (key, body["model"], body.get("speed", "standard"))
        # Time only moves forward, so expired entries can be dropped; otherwise long runs would be slow.
        self.cache.entries = [entry for entry in self.cache.entries if entry.dies_after >= now]
        answer = self.cache.start(scope, blocks, TRAILING, self.minimum, now)
        self.cache.begin(answer)
        return answer.read, answer.write_1h, answer.write_5m, answer.plain


def linear(body: dict[str, Any]) -> list[NaiveBlock]:
    tools, system, messages = body.get("tools", []), as_blocks(body.get("system", [])), body["messages"]
    choice = body.get("tool_choice", {"type": "auto"})
    free, forced = TOOL_PROMPT[body["model"]]
    about_messages = [
        choice,
        body.get("thinking", {"type": "adaptive"})["type"],
        body.get("output_config", {}).get("effort", "high"),
        sum(block["type"] == "image" for message in messages for block in as_blocks(message["content"])),
    ]
    blocks = [naive(tool, "tool", "tools") for tool in tools]
    if blocks:
        blocks[-1].tokens += free
    blocks += [naive(block, block["type"], "system") for block in system]
    extra = forced - free if tools and choice["type"] in ("any", "tool") else 0
    before = None
    for message in messages:
        for block in as_blocks(message["content"]):
            made = naive(block, block["type"], [message["role"], about_messages])
            made.tokens += extra + (TURN if message["role"] != before else 0)
            extra, before = 0, message["role"]
            blocks.append(made)
    return blocks


def as_blocks(content: Any) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def naive(body: dict[str, Any], kind: str, about: Any) -> NaiveBlock:
    plain = {name: value for name, value in body.items() if name != "cache_control"}
    marker = body["cache_control"].get("ttl", "5m") if "cache_control" in body else None
    return NaiveBlock([about, json.dumps(plain)], kind, naive_tokens(body), marker)


def mark_last(blocks: list[NaiveBlock], control: dict[str, str]) -> None:
    for block in reversed(blocks):
        if block.kind not in ("thinking", "redacted_thinking"):
            block.marker = block.marker or control.get("ttl", "5m")
            return
