"""Checks our prefix cache model against real sessions: predicted and reported cache reads, call by call.

A session file holds neither its system prompt and tools nor exact token counts. It holds enough for a check:
the blocks show which earlier call a call extends, and the usage of that call shows how many tokens its cache
entry had. The preamble is therefore one block here, and token positions are those that earlier calls
reported. `measure/prefix_cache.py` does the rest.

    python -m everturn.replay.cache_check FOLDER
"""

import sys
from collections import Counter
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Final

import msgspec

from everturn.history.records import Usage
from everturn.history.threads import Thread, split_threads
from everturn.measure.prefix_cache import Breakpoint, PrefixCache, PromptLayout, Ttl, group_positions
from everturn.measure.tokens import estimate_block
from everturn.replay.calls import RecordedCall, iter_calls
from everturn.safe_files import MAX_SESSION_BYTES, read_file
from everturn.wire.claude_code_reader import parse_session_file

# Tokens per estimated token, where no call has reported a count: the median over these sessions
# (docs/measure.md).
_RATIO: Final = 1.44
_NEAR: Final = 0.05


class CacheCheck(msgspec.Struct, frozen=True):
    """One call: what it should have read, what it reported, and why they differ."""

    session: str
    number: int
    predicted: int
    reported: int
    context: int
    why: str
    # Reported cache writes. What was not read had to be written, so the predicted write follows from the
    # read.
    written: int = 0

    @property
    def error(self) -> float:
        """As a share of the whole context."""
        return abs(self.predicted - self.reported) / max(1, self.context)


class CacheChecker:
    """Our model of the cache of one thread."""

    def __init__(self, session: str) -> None:
        self._session = session
        self._cache = PrefixCache()
        self._measured: dict[bytes, int] = {}
        self._preamble = 0
        self._last: RecordedCall | None = None

    def check(self, call: RecordedCall) -> CacheCheck:
        now = call.at.timestamp() if call.at else 0.0
        self._preamble = self._preamble or _preamble_tokens(call)
        prompt, last = self._prompt(call)
        outcome = self._cache.look(prompt, now)
        self._cache.refresh(outcome)
        self._cache.write(outcome, now)
        usage = call.usage
        self._measured[last] = usage.cache_read_input_tokens + usage.cache_creation_input_tokens
        why = _why(call, self._last, outcome.read, usage.cache_read_input_tokens, self._preamble)
        self._last = call
        return CacheCheck(
            session=self._session,
            number=call.number,
            predicted=outcome.read,
            reported=usage.cache_read_input_tokens,
            context=usage.context,
            why=why,
            written=usage.cache_creation_input_tokens,
        )

    def _prompt(self, call: RecordedCall) -> tuple[PromptLayout, bytes]:
        """The call as the cache sees it, and the key of its last block."""
        keys, ends = [b"preamble"], [self._preamble]
        blocks = [(message.role, block) for message in call.messages for block in message.blocks]
        for role, block in blocks:
            keys.append(blake2b(b"\0".join((keys[-1], role.encode(), block.raw)), digest_size=16).digest())
            guess = ends[-1] + round(estimate_block(block) * _RATIO)
            ends.append(self._measured.get(keys[-1], guess))
        ttl = _ttl(call.usage)
        prompt = PromptLayout(
            scope=call.model,
            keys=keys,
            ends=ends,
            positions=group_positions(["preamble", *(block.kind for _, block in blocks)]),
            markers=[Breakpoint(0, ttl), Breakpoint(len(keys) - 1, ttl)],
            total=max(ends[-1], call.usage.context),
        )
        return prompt, keys[-1]


def _preamble_tokens(call: RecordedCall) -> int:
    """Tokens of system prompt and tools: what the first call read, or else what its messages do not account
    for.
    """
    if call.usage.cache_read_input_tokens:
        return call.usage.cache_read_input_tokens
    said = sum(estimate_block(block) for message in call.messages for block in message.blocks)
    return max(0, call.usage.context - round(said * _RATIO))


def _ttl(usage: Usage) -> Ttl:
    written = usage.cache_creation
    return "1h" if written and written.ephemeral_1h_input_tokens else "5m"


def _why(call: RecordedCall, last: RecordedCall | None, predicted: int, reported: int, preamble: int) -> str:
    if abs(predicted - reported) <= _NEAR * max(1, call.usage.context):
        return "as predicted"
    if last is None:
        return "first call: the system prompt and tools were already cached by another session"
    if reported > predicted:
        return (
            "the system prompt and tools were kept in the cache by another session"
            if reported <= preamble * 1.1
            else "a cache entry was read that no recorded call wrote"
        )
    if reported == 0:
        return "nothing was read: not even the system prompt and tools were in the cache"
    if reported <= preamble * 1.1:
        return "only system prompt and tools were read: the messages' entry was gone or the prefix changed"
    return "an older cache entry was read than the newest"


def check_thread(thread: Thread, session: str) -> Iterator[CacheCheck]:
    checker = CacheChecker(session)
    for call in iter_calls(thread):
        yield checker.check(call)


def check_folder(folder: Path) -> Iterator[CacheCheck]:
    for path in sorted(folder.rglob("*.jsonl")):
        found = split_threads(parse_session_file(read_file(path, max_bytes=MAX_SESSION_BYTES)).records)
        for thread in (found.main, *found.sidechains):
            yield from check_thread(thread, path.name)


def render_table(results: list[CacheCheck]) -> list[str]:
    """Markdown tables: how large the error is, and what explains it."""
    count = max(1, len(results))
    bounds = ((0.001, "0.1 %"), (0.01, "1 %"), (0.05, "5 %"), (0.25, "25 %"), (2.0, "any"))
    lines = ["| error, as a share of the context | calls | share |", "|---|--:|--:|"]
    for bound, name in bounds:
        within = sum(result.error <= bound for result in results)
        lines.append(f"| at most {name} | {within:,} | {within / count:.1%} |")
    lines += ["", "| what explains it | calls | share |", "|---|--:|--:|"]
    for why, number in Counter(result.why for result in results).most_common():
        lines.append(f"| {why} | {number:,} | {number / count:.1%} |")
    return lines


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print("usage: python -m everturn.replay.cache_check FOLDER", file=sys.stderr)
        return 2
    print("\n".join(render_table(list(check_folder(Path(arguments[0]))))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
