"""A context before and after a decision, as a numbered text: what changed is visible in a review.

Every block is a line: its message, who speaks, its kind, whose it is, its size, its first words. Set
EVERTURN_WRITE_SCENES=1 to write the files anew, and read the difference before committing it.
"""

import os
from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import zip_longest
from pathlib import Path

from everturn.history.blocks import Block, fields_of, text_of
from everturn.history.messages import Message
from everturn.measure.tokens import estimate_block

HERE = Path(__file__).parent
WORDS = 16


def scene(sentence: str, before: Sequence[Message], after: Sequence[Message], why: str) -> str:
    old, new = _lines(before), _lines(after)
    wide = max(len(line) for _, line in (*old, *new)) + 2
    rows = [f"{'before':{wide}}after"]
    matcher = SequenceMatcher(None, [key for key, _ in old], [key for key, _ in new], autojunk=False)
    for same, a, b, c, d in matcher.get_opcodes():
        for (_, left), (_, right) in zip_longest(old[a:b], new[c:d], fillvalue=(b"", "")):
            mark = "=" if same == "equal" else "changed" if left and right else "gone" if left else "new"
            rows.append(f"{left:{wide}}{right:{wide}}{mark}")
    return f"Scene: {sentence}\n\n" + "\n".join(rows) + f"\n\nwhy: {why}\n"


def _lines(messages: Sequence[Message]) -> list[tuple[bytes, str]]:
    """What a block is compared by, and how it is shown."""
    found: list[tuple[bytes, str]] = []
    for at, message in enumerate(messages):
        for number, block in enumerate(message.blocks):
            place = f"{at:02} {message.role:9}" if number == 0 else " " * 12
            found.append((message.role.encode() + block.raw, f"{place} {_shown(block)}"))
    return found


def _shown(block: Block) -> str:
    name = f"{block.kind} {block.tool} {block.call}".replace("  ", " ").strip()
    return f"{name:20} {estimate_block(block):6,} {_first_words(block)}"


def _first_words(block: Block) -> str:
    if block.kind == "cache_edits":
        return " ".join(f"-{edit['cache_reference']}" for edit in fields_of(block)["edits"])
    words = " ".join(text_of(block)[: 4 * WORDS].split())
    return words if len(words) <= WORDS else words[: WORDS - 1] + "…"


def check_scene(name: str, text: str) -> None:
    path = HERE / f"{name}.txt"
    if os.environ.get("EVERTURN_WRITE_SCENES"):
        path.write_text(text, encoding="utf-8")
    assert path.is_file(), f"{path.name} is not written yet: run with EVERTURN_WRITE_SCENES=1"
    assert text == path.read_text(encoding="utf-8"), (
        "after a wanted change: EVERTURN_WRITE_SCENES=1 pytest tests/scenes, and read the difference"
    )
