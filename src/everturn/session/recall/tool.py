"""Recall as a tool that an agent can be given: a definition, and an answer of bounded size.

What it is called and every sentence in it: `view/fragments/recalled.py`. An answer is always words; a model
that asked wrongly is told how to ask.
"""

from typing import Final

import msgspec

from everturn.errors import EverturnError
from everturn.history.blocks import Block
from everturn.history.log import Log
from everturn.session.recall.index import RecallIndex
from everturn.session.recall.search import LIMIT, Hit, search
from everturn.view.fragments import recalled

RECALL_TOOL: Final = recalled.TOOL
MAX_HITS: Final = 20
PAGE: Final = 10_000


class _Asked(msgspec.Struct, rename={"start": "from"}):
    query: str = ""
    limit: int = LIMIT
    record: str = ""
    start: int = 0


class _Call(msgspec.Struct):
    input: _Asked


def answer_tool(call: Block, *, index: RecallIndex, log: Log) -> str:
    """The result of a call of `RECALL_TOOL`, in words, whatever was asked."""
    try:
        asked = msgspec.json.decode(call.raw, type=_Call).input
        return recalled.cut(_page(asked, index) if asked.record else _hits(asked, index, log))
    except msgspec.DecodeError as problem:
        return f"The recall tool was called in a way that it does not understand: {problem}"
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
        return f"There is no record {asked.record} with words in this session."
    if len(names) > 1:
        return f"{len(names)} records begin with {asked.record}; give more of it: {', '.join(names[:5])}."
    text = ""
    for at, piece in enumerate(pieces):
        text += ("\n\n" if at and piece.start == 0 else "") + piece.text
    return recalled.page(names[0], asked.start, text[asked.start : asked.start + PAGE], len(text))
