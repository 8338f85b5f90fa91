"""Checks a file of `everturn replay --requests` from outside: validity, usage and dollars, with a cache, a
price list and rules of its own. Nothing of `everturn.replay` or `everturn.measure` is imported; whether a
request is valid is decided by the twin's validator.

    PYTHONPATH=tests python -m replay.request_checker FILE
"""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from itertools import accumulate
from pathlib import Path
from typing import Any

import msgspec

from everturn.twin.options import TwinOptions
from everturn.twin.parse import parse_request
from everturn.twin.validate import validate
from everturn.twin.values import ApiError

LIFE = {"5m": 300.0, "1h": 3600.0}
LOOKBACK = 20
# Public prices in dollars per million tokens (input, read, output) and the smallest prefix that is cached.
PRICES = {
    "claude-fable-5-2": (8.0, 0.2, 40.0, 512),
    "claude-mythos-5-2": (8.0, 0.2, 40.0, 512),
    "claude-haiku-5-5": (0.1, 0.01, 0.5, 512),
    "claude-sonnet-5-5": (2.0, 0.2, 10.0, 1024),
    "claude-opus-5-5": (4.0, 0.2, 20.0, 512),
    "claude-fable-5-1": (10.0, 0.25, 50.0, 512),
    "claude-mythos-5-1": (10.0, 0.25, 50.0, 512),
    "claude-opus-5": (5.0, 0.5, 25.0, 512),
    "claude-sonnet-5": (2.0, 0.2, 10.0, 1024),
    "claude-fable-5": (10.0, 1.0, 50.0, 512),
    "claude-mythos-5": (10.0, 1.0, 50.0, 512),
    "claude-opus-4-8": (5.0, 0.5, 25.0, 1024),
    "claude-opus-4-7": (5.0, 0.5, 25.0, 2048),
    "claude-mythos-preview": (10.0, 1.0, 50.0, 2048),
    "claude-opus-4-6": (5.0, 0.5, 25.0, 4096),
    "claude-opus-4-5": (5.0, 0.5, 25.0, 4096),
    "claude-opus-4-1": (15.0, 1.5, 75.0, 1024),
    "claude-opus-4-0": (15.0, 1.5, 75.0, 1024),
    "claude-sonnet-4-6": (3.0, 0.3, 15.0, 1024),
    "claude-sonnet-4-5": (3.0, 0.3, 15.0, 1024),
    "claude-sonnet-4-0": (3.0, 0.3, 15.0, 1024),
    "claude-haiku-4-5": (1.0, 0.1, 5.0, 4096),
    "claude-3-7-sonnet-latest": (3.0, 0.3, 15.0, 1024),
    "claude-3-5-haiku-latest": (0.8, 0.08, 4.0, 2048),
}
# A whole request of Haiku 5.5 costs five times as much above this size of its prompt.
HAIKU_STEP = 100_000
# Since then, Sonnet 5.5 reads for half.
SONNET_READS_FOR_HALF = "2026-10-07"
encode = msgspec.json.Encoder(order="sorted").encode
OPTIONS = TwinOptions(foreign_signatures="accept")


@dataclass
class Block:
    key: bytes
    kind: str
    ttl: str | None
    is_hidden: bool = False


@dataclass
class Bill:
    """One session under one policy."""

    requests: int = 0
    dollars: float = 0.0
    recomputed: float = 0.0
    sources: Counter[str] = field(default_factory=Counter[str])


@dataclass
class Checked:
    bills: dict[tuple[str, str], Bill] = field(default_factory=dict[tuple[str, str], Bill])
    # Each with the session, policy and call.
    invalid: list[str] = field(default_factory=list[str])
    wrong_usage: list[str] = field(default_factory=list[str])
    wrong_sums: list[str] = field(default_factory=list[str])
    wrong_dollars: list[str] = field(default_factory=list[str])

    @property
    def worst(self) -> float:
        """The largest error of a bill."""
        bills = self.bills.values()
        return max((abs(each.recomputed / each.dollars - 1) for each in bills if each.dollars), default=0.0)


class Cache:
    """Prefixes with the time after which they are gone."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, bytes], tuple[str, float]] = {}

    def bill(
        self, model: str, blocks: list[Block], ends: list[int], now: float, cache: dict[str, Any]
    ) -> dict[str, int]:
        self._apply(model, blocks, ends, now, cache)
        marked = [at for at, block in enumerate(blocks) if block.ttl and ends[at] >= PRICES[model][3]]
        looked = (at for mark in reversed(marked) for at in _walk(blocks, mark))
        hit = next((at for at in looked if self._alive(model, blocks[at], now)), None)
        if hit is not None:
            ttl, until = self._entries[model, blocks[hit].key]
            self._entries[model, blocks[hit].key] = ttl, max(until, now + LIFE[ttl])
        read = ends[hit] if hit is not None else 0
        hour = max((ends[at] for at in marked if blocks[at].ttl == "1h"), default=0)
        last = max((ends[at] for at in marked), default=0)
        hour, last = max(hour, read), max(last, read)
        for at in marked:
            if not self._alive(model, blocks[at], now):
                ttl = blocks[at].ttl or "5m"
                self._entries[model, blocks[at].key] = ttl, now + LIFE[ttl]
        return {
            "read": read,
            "1h": hour - read,
            "5m": max(0, last - hour),
            "plain": ends[-1] - max(last, hour),
        }

    def _alive(self, model: str, block: Block, now: float) -> bool:
        return self._entries.get((model, block.key), ("", -1.0))[1] >= now

    def _apply(
        self, model: str, blocks: list[Block], ends: list[int], now: float, cache: dict[str, Any]
    ) -> None:
        """What the provider's cache did on its own before this request."""
        if "lost_behind" in cache:
            for block, end in zip(blocks, ends, strict=True):
                if end > cache["lost_behind"]:
                    self._entries.pop((model, block.key), None)
        for end in cache.get("found", ()):
            at = min(range(len(ends)), key=lambda index: abs(ends[index] - end))
            ttl = next((block.ttl for block in reversed(blocks) if block.ttl), "5m")
            self._entries[model, blocks[at].key] = ttl, now + LIFE[ttl]


def _walk(blocks: list[Block], mark: int) -> Iterator[int]:
    """Twenty positions back; a run of tool calls or of results is one position."""
    seen = 1
    yield mark
    for at in range(mark - 1, -1, -1):
        kind = blocks[at].kind
        seen += not blocks[at].is_hidden and not (
            kind == blocks[at + 1].kind and kind in ("tool_use", "tool_result")
        )
        if seen > LOOKBACK:
            return
        yield at


def _blocks(body: dict[str, Any], hidden: set[int]) -> list[Block]:
    """The prompt in the order of the prefix. What is no block but shapes the prompt is in the keys. Hidden
    thinking is not: the API demands it in the request and does not show it to the model.
    """
    parts = [("tools", block) for block in body.get("tools") or ()]
    parts += [("system", block) for block in body.get("system") or ()]
    messages = [(message["role"], block) for message in body["messages"] for block in message["content"]]
    controls = [block.pop("cache_control", None) for _, block in (*parts, *messages)]
    said = [encode([role, block]) for role, block in (*parts, *messages)]
    images = sum(text.count(b'"type":"image"') for text in said[len(parts) :])
    salt = encode([body.get("thinking") or {}, body.get("tool_choice"), images])
    chain = b""
    found: list[Block] = []
    for at, (_, block) in enumerate((*parts, *messages)):
        is_hidden = at in hidden
        part = (salt if at == len(parts) else b"") + (b"" if is_hidden else said[at])
        chain = sha256(chain + part).digest() if part else chain
        control = controls[at]
        ttl = control.get("ttl", "5m") if control else None
        found.append(Block(chain, block.get("type", "tool"), ttl, is_hidden))
    return found


def _count_blocks(body: dict[str, Any]) -> int:
    preamble = len(body.get("tools") or ()) + len(body.get("system") or ())
    return preamble + sum(len(message["content"]) for message in body["messages"])


def _price(model: str, parts: dict[str, int], output: int, time: str) -> float:
    plain, read, out, _ = PRICES[model]
    if model == "claude-sonnet-5-5" and time >= SONNET_READS_FOR_HALF:
        read /= 2
    tokens = parts["plain"] + parts["5m"] * 1.25 + parts["1h"] * 2
    dollars = (tokens * plain + parts["read"] * read + output * out) / 1_000_000
    is_large = model == "claude-haiku-5-5" and sum(parts.values()) > HAIKU_STEP
    return dollars * 5 if is_large else dollars


class Checker:
    """Checks lines one by one. Each session has a cache of its own under each policy."""

    def __init__(self) -> None:
        self.found = Checked()
        self._caches: dict[tuple[str, str], Cache] = {}

    def add(self, raw: bytes) -> None:
        found, line = self.found, msgspec.json.decode(raw)
        owner = line["session"], line["policy"]
        where = f"{line['session']} {line['policy']} {line['thread']} {line['call']} {line['source']}"
        body, usage, model = line["request"], line["usage"], line["model"]
        if problem := _refusal(body):
            found.invalid.append(f"{where}: {problem}")
        written = usage["cache_creation"]
        told = {
            "plain": usage["input_tokens"],
            "5m": written["ephemeral_5m_input_tokens"],
            "1h": written["ephemeral_1h_input_tokens"],
            "read": usage["cache_read_input_tokens"],
        }
        if _count_blocks(body) != len(line["tokens"]) or sum(line["tokens"]) != sum(told.values()):
            found.wrong_sums.append(where)
            return
        blocks = _blocks(body, set(line["hidden"]))
        now = datetime.fromisoformat(line["time"]).timestamp()
        ends = list(accumulate(line["tokens"]))
        # Tokens after the last block are counted with it and never cached.
        ends[-1] -= line["trailing"]
        ours = self._caches.setdefault(owner, Cache()).bill(model, blocks, ends, now, line["cache"])
        ours["plain"] += line["trailing"]
        if ours != told:
            found.wrong_usage.append(f"{where}: {ours} instead of {told}")
        if abs(_price(model, told, usage["output_tokens"], line["time"]) - line["dollars"]) > 1e-9:
            found.wrong_dollars.append(where)
        bill = found.bills.setdefault(owner, Bill())
        bill.requests += 1
        bill.sources[line["source"]] += 1
        bill.dollars += line["dollars"]
        bill.recomputed += _price(model, ours, usage["output_tokens"], line["time"])


def check(lines: Iterable[bytes]) -> Checked:
    checker = Checker()
    for line in lines:
        checker.add(line)
    return checker.found


def _refusal(body: dict[str, Any]) -> str:
    """What the API would answer to this request; "" if it accepts it."""
    try:
        spelled = encode(body)
        validate(
            parse_request("messages", {"anthropic-version": "2023-06-01"}, spelled, workspace="w"), OPTIONS
        )
    except ApiError as refused:
        return str(refused)
    return "" if body["messages"] else "no messages"


def main(files: list[str]) -> int:
    found = check(line for file in files for line in Path(file).read_bytes().splitlines())
    for name in ("invalid", "wrong_sums", "wrong_usage", "wrong_dollars"):
        problems = getattr(found, name)
        print(f"{name}: {len(problems)}")
        for each in problems[:10]:
            print(f"  {each}")
    requests = sum(each.requests for each in found.bills.values())
    print(f"{requests} requests, {len(found.bills)} bills; the largest error of a bill is {found.worst:.3%}")
    return int(bool(found.invalid or found.wrong_sums) or found.worst > 0.005)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
