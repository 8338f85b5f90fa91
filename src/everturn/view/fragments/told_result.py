"""Tool calls and their results, told as text (CP-38).

A result is data of a tool: its text is marked as such, and cannot end the mark. Pictures and documents stay
blocks of their own.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from everturn.history.blocks import Block, fields_of, parts_of, text_block, text_of
from everturn.history.repair import STANDS_ALONE
from everturn.view.fragments.escaping import OUTPUT_TAG, escaped


def told_calls(names: Sequence[str]) -> Block:
    """What the assistant's message says instead of its calls."""
    return text_block(f"[Called {', '.join(names)}; what came back follows]")


def told_result(call: Block, result: Block) -> tuple[Block, ...]:
    outcome = "failed" if fields_of(result).get("is_error") else "gave"
    parts = parts_of(result)
    whole = tuple(part for part in parts if part.kind in STANDS_ALONE)
    words = (
        "\n".join(map(_words, (part for part in parts if part not in whole))) if parts else text_of(result)
    )
    text = f"{call.tool}({_input(call)}) {outcome}:\n<{OUTPUT_TAG}>\n{escaped(words)}\n</{OUTPUT_TAG}>"
    return text_block(text), *whole


def _words(part: Block) -> str:
    return text_of(part) if part.kind == "text" else part.raw.decode(errors="replace")


def _input(call: Block) -> str:
    given: Any = fields_of(call).get("input")
    return escaped(msgspec.json.encode(given).decode()) if given else ""
