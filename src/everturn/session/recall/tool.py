"""Recall as a tool for the model: its definition, and answers of limited size.

The name and texts of the tool are in `view/fragments/recalled.py`. The answer is always a text; after an
invalid call it explains the mistake.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from everturn.errors import EverturnError
from everturn.history.blocks import Block, block_from_fields
from everturn.history.log import Log
from everturn.session.recall.index import RecallIndex
from everturn.session.recall.search import LIMIT, Hit, search
from everturn.session.tools import Tool
from everturn.view.fragments import recalled

if TYPE_CHECKING:
    from everturn.session.runtime import SessionRuntime

MAX_HITS: Final = 20
PAGE: Final = 10_000


class _Asked(msgspec.Struct, rename={"start": "from"}):
    query: str = ""
    limit: int = LIMIT
    record: str = ""
    start: int = 0


class _Call(msgspec.Struct):
    input: _Asked


def make_recall_tool(current: "Callable[[], SessionRuntime]") -> Tool:
    """The tool of a session; each call searches the runtime that is `current` then."""

    def run(given: Mapping[str, Any]) -> str:
        fields = {"type": "tool_use", "id": "", "name": recalled.NAME, "input": dict(given)}
        runtime = current()
        return answer_tool(
            block_from_fields(fields), index=runtime.open_index(), log=runtime.conversation.log
        )

    return Tool(recalled.TOOL, run)


def answer_tool(call: Block, *, index: RecallIndex, log: Log) -> str:
    """The text result of a call of `recalled.TOOL`; also for invalid calls."""
    try:
        asked = msgspec.json.decode(call.raw, type=_Call).input
        return recalled.cut(_page(asked, index) if asked.record else _hits(asked, index, log))
    except msgspec.DecodeError as problem:
        return f"Invalid input for the recall tool: {problem}"
    except EverturnError as problem:
        return str(problem)


def _hits(asked: _Asked, index: RecallIndex, log: Log) -> str:
    found = search(asked.query, max(1, min(asked.limit, MAX_HITS)), index=index, log=log)
    if not found.hits:
        return recalled.nothing(asked.query)
    listed = [_shown(number, hit) for number, hit in enumerate(found.hits, start=1)]
    return "\n\n".join([f"[{found.remark}]", *listed] if found.remark else listed)


def _shown(number: int, hit: Hit) -> str:
    what = f"{hit.source} of {hit.tool}" if hit.tool else hit.source
    return recalled.hit(number, record=hit.record, what=what, at=hit.at, state=hit.state, snippet=hit.snippet)


def _page(asked: _Asked, index: RecallIndex) -> str:
    index.catch_up()
    pieces = index.passages_of(asked.record)
    names = list(dict.fromkeys(piece.uuid for piece in pieces))
    if not names:
        return f"No record {asked.record} with text found in this session."
    if len(names) > 1:
        found = ", ".join(names[:5])
        return f"{len(names)} records have ids that begin with {asked.record}; give a longer prefix: {found}."
    text = ""
    for number, piece in enumerate(pieces):
        text += ("\n\n" if number and piece.start == 0 else "") + piece.text
    return recalled.page(names[0], asked.start, text[asked.start : asked.start + PAGE], len(text))
