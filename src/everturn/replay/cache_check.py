"""The prefix cache, judged by what real sessions reported: call by call, cache reads predicted and reported.

A session file does not hold its system prompt and tools, and nobody can count its tokens exactly. What it
does hold is enough: the blocks tell which earlier call a call extends, and the usage of that call tells how
many tokens its entry had. So the head is one block here, keys are bytes, token ends are what earlier calls
reported, and `measure/prefix_cache.py` does the rest.

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
from everturn.wire.claude_code_reader import parse_session_file

# Tokens per estimated token, for what no call has measured: the median over these sessions (docs/measure.md).
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
    # Cache writes as reported. What was not read had to be written, so the prediction follows from the read.
    written: int = 0

    @property
    def predicted_written(self) -> int:
        return max(0, self.reported + self.written - self.predicted)

    @property
    def error(self) -> float:
        """As a share of the whole context."""
        return abs(self.predicted - self.reported) / max(1, self.context)


class CacheChecker:
    """One thread's cache, as our model has it."""

    def __init__(self, session: str) -> None:
        self._session = session
        self._cache = PrefixCache()
        self._measured: dict[bytes, int] = {}
        self._head = 0
        self._last: RecordedCall | None = None

    def judge(self, call: RecordedCall) -> CacheCheck:
        now = call.at.timestamp() if call.at else 0.0
        self._head = self._head or _head_of(call)
        prompt, last = self._prompt(call)
        outcome = self._cache.look(prompt, now)
        self._cache.refresh(outcome)
        self._cache.write(outcome, now)
        usage = call.usage
        self._measured[last] = usage.cache_read_input_tokens + usage.cache_creation_input_tokens
        why = _why(call, self._last, outcome.read, usage.cache_read_input_tokens, self._head)
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
        keys, ends = [b"head"], [self._head]
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
            positions=group_positions(["head", *(block.kind for _, block in blocks)]),
            markers=[Breakpoint(0, ttl), Breakpoint(len(keys) - 1, ttl)],
            total=max(ends[-1], call.usage.context),
        )
        return prompt, keys[-1]


def _head_of(call: RecordedCall) -> int:
    """System prompt and tools: what a first call read was the head; else what its messages leave over."""
    if call.usage.cache_read_input_tokens:
        return call.usage.cache_read_input_tokens
    said = sum(estimate_block(block) for message in call.messages for block in message.blocks)
    return max(0, call.usage.context - round(said * _RATIO))


def _ttl(usage: Usage) -> Ttl:
    written = usage.cache_creation
    return "1h" if written and written.ephemeral_1h_input_tokens else "5m"


def _why(call: RecordedCall, last: RecordedCall | None, predicted: int, reported: int, head: int) -> str:
    if abs(predicted - reported) <= _NEAR * max(1, call.usage.context):
        return "as predicted"
    if last is None:
        return "first call: the head was warm, another session had written it"
    if reported > predicted:
        return (
            "the head was kept warm by another session"
            if reported <= head * 1.1
            else "an unknown entry was read"
        )
    if reported == 0:
        return "nothing was read: the provider lost even the head"
    if reported <= head * 1.1:
        return "only the head was read: the messages' entry was gone or the prefix changed unseen"
    return "an earlier entry was read than the newest"


def check_thread(thread: Thread, session: str) -> Iterator[CacheCheck]:
    judge = CacheChecker(session)
    for call in iter_calls(thread):
        yield judge.judge(call)


def check_folder(folder: Path) -> Iterator[CacheCheck]:
    for path in sorted(folder.rglob("*.jsonl")):
        found = split_threads(parse_session_file(path.read_bytes()).records)
        for thread in (found.main, *found.sidechains):
            yield from check_thread(thread, path.name)


def render_table(results: list[CacheCheck]) -> list[str]:
    """Markdown: how far off, and why."""
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
