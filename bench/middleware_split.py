"""Where the work of one managed call goes, at 20K tokens: bytecodes, which no other program disturbs.

    python bench/middleware_split.py                               prints the table
    python bench/middleware_split.py --into docs/middleware.md     writes it into that page

One steady call is counted, with the transcript in memory and on disk. What a function calls counts for it,
unless it is in a row of its own. Work in C (digests, JSON, copies) has no bytecodes and is not in it.
"""

import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final

import middleware as bench
import msgspec

from everturn.replay.marked_page import insert_between

TOKENS: Final = 20_000
WARM_TURNS: Final = 6
START, END = "<!-- split: begin -->", "<!-- split: end -->"
REST: Final = "locks, flows, choosing among the steps"

# What a function is part of. The innermost one counts.
PARTS: Final = {
    "ConversationTracker.read": "reading the caller's list, digests of what is new",
    "Recogniser.recognise": "finding the conversation",
    "Recogniser.remember": "finding the conversation",
    "CallerRequest.new_messages": "new messages as records",
    "ConversationRunner._record": "new messages as records",
    "ConversationState.add": "following the view: sizes, accounts, results, messages",
    "KnownList.add": "finding the conversation",
    "record_links": "reading the caller's list, digests of what is new",
    "ConversationState.size": "sizes",
    "Conversation._micro_context": "deciding: clearing, thinking, compaction",
    "plan_micro_compaction": "deciding: clearing, thinking, compaction",
    "drop_thinking": "deciding: clearing, thinking, compaction",
    "end_deletions": "deciding: clearing, thinking, compaction",
    "tell_unsendable": "deciding: clearing, thinking, compaction",
    "Compactor.compact_if_due": "deciding: clearing, thinking, compaction",
    "ProviderCache.begin_call": "breakpoints, changes of the cache key",
    "ViewTracker.build_outline": "prediction of the cache",
    "Outline.prompt": "prediction of the cache",
    "Forecast.predict": "prediction of the cache",
    "ProviderCache.settle": "prediction of the cache",
    "CacheBreakDetector.after_call": "breakpoints, changes of the cache key",
    "Economy.record_reply": "economy: what the reply cost and kept",
    "AnthropicWire.spell_request": "the bytes of the request",
    "apply_prepared_call": "the bytes of the request",
    "ResponseRecorder.read": "parsing and pricing the reply",
    "Transcript.append": "writing the transcript and its state",
    "ConversationRunner.keep_appended": "writing the transcript and its state",
    "ConversationRunner._keep_reply": "writing the transcript and its state",
    "TrackedConversation.write_state": "writing the transcript and its state",
}


@contextmanager
def counting(found: Counter[str]) -> Iterator[None]:
    """Counts bytecodes by part, in this thread."""
    parts = [REST]

    def enter(frame: FrameType, event: str, _: Any) -> Any:
        if event != "call":
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        parts.append(PARTS.get(frame.f_code.co_qualname, parts[-1]))
        return inside

    def inside(_: FrameType, event: str, __: Any) -> Any:
        if event == "opcode":
            found[parts[-1]] += 1
        elif event == "return":
            parts.pop()
        return inside

    sys.settrace(enter)
    try:
        yield
    finally:
        sys.settrace(None)


def measure(folder: str | None) -> Counter[str]:
    clients = bench.Clients(folder)
    messages: list[Any] = []
    while len(msgspec.json.encode(messages)) < 4 * TOKENS:
        messages, reply = bench.exchange(messages)
        messages.append({"role": "assistant", "content": reply})
    found: Counter[str] = Counter()
    for _ in range(WARM_TURNS):
        found.clear()
        messages, reply = bench.exchange(messages)
        clients.endpoint.reply = bench.response(reply, TOKENS)
        request, call_next = clients.record(bench.make_body(messages))
        with counting(found):
            clients.alone.handle(request, call_next)
        messages.append({"role": "assistant", "content": reply})
    clients.close()
    return found


def table(memory: Counter[str], disk: Counter[str]) -> str:
    lines = ["| part | in memory | share | on disk |", "|---|---:|---:|---:|"]
    for part, _ in memory.most_common():
        share = memory[part] / memory.total()
        lines.append(f"| {part} | {memory[part]:,} | {share:.0%} | {disk[part]:,} |")
    return "\n".join([*lines, f"| **all bytecodes** | {memory.total():,} | | {disk.total():,} |"])


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        drawn = table(measure(None), measure(folder))
    print(drawn)
    if "--into" in sys.argv:
        page = Path(sys.argv[sys.argv.index("--into") + 1])
        page.write_text(insert_between(page.read_text(), START, END, drawn))


if __name__ == "__main__":
    main()
