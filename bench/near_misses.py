"""How the cost of reading foreign text grows: text that nearly matches, at n and at 2n characters.

    .venv/bin/python bench/near_misses.py

A ratio near 2 is linear, near 4 quadratic. Only ratios above the bound are printed, with the text that causes
them, and the slowest reading of all; what is too fast to be measured is left out.
"""

import time
from collections.abc import Callable
from typing import Final

from everturn.decide.compact.gate import _words_beside_headings
from everturn.decide.compact.pins import standing_instructions
from everturn.decide.compact.summary_response import formatted, text_problem
from everturn.history.blocks import text_block
from everturn.history.records import Record
from everturn.session.events.serialize import redact_secrets
from everturn.session.memory_files.imports import find_imports
from everturn.view.fragments.escaping import escaped
from everturn.wire.claude_code_reader import parse_session_file
from everturn.wire.overflow import parse_overflow

SIZE: Final = 50_000
BOUND: Final = 3.0
# Shorter readings are noise.
FASTEST: Final = 0.03
NEAR_MISSES: Final = (
    "a", " ", "\n", "<", "`", '"', "#", "-", "\\", "sk-", "1. ", "a.b/", "'\n", "[ ", "never ", "@a ",
    "bearer ", "<system-reminder>", "<analysis>", "<summary>", "://a:", "tokens ", "Error", "> ", "** ",
    "use a ", "eyJ", "{",
)  # fmt: skip
READERS: Final[dict[str, Callable[[str], object]]] = {
    "what looks like a secret": redact_secrets,
    "how a provider says too long": parse_overflow,
    "tags of our own": escaped,
    "imports of a memory file": lambda text: list(find_imports(text)),
    "the form of a summary": lambda text: text_problem(formatted(text)),
    "what stands beside headings": lambda text: _words_beside_headings(formatted(text)),
    "rules in what a person said": lambda text: standing_instructions(said(text), 400),
    "a line of a transcript": lambda text: parse_session_file(text.encode()),
}


def said(text: str) -> Record:
    return Record(kind="user", uuid="u", blocks=(text_block(text),))


def seconds(read_text: Callable[[str], object], near: str, size: int) -> float:
    text = near * (size // len(near))
    best = float("inf")
    for _ in range(3):
        began = time.perf_counter()
        read_text(text)
        best = min(best, time.perf_counter() - began)
    return best


def main() -> None:
    for name, reader in READERS.items():
        slowest, steep = 0.0, []
        for near in NEAR_MISSES:
            short, long = seconds(reader, near, SIZE), seconds(reader, near, 2 * SIZE)
            slowest = max(slowest, long)
            if short > FASTEST and long / short > BOUND:
                steep.append(f"{near!r} ×{long / short:.1f} ({long:.2f} s)")
        print(f"{name:32} slowest {slowest * 1000:8.1f} ms   {', '.join(steep) or 'linear'}")


if __name__ == "__main__":
    main()
