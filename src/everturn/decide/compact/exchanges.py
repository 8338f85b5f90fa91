"""Calls and their results that a reset by price keeps word for word, as text beside the summary (EC-6).

Which are worth their tokens is decided in `decide/economy/keeping.py`. A read of a file that was read or
changed later, by whomever, shows an old state and is never kept; neither are results that the model no longer
sees, or that are not text.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from everturn.decide.compact.call_index import Attached, Called, CallIndex, parts_inside, text
from everturn.decide.compact.values import RestoredExchange
from everturn.decide.economy.keeping import KeepRule
from everturn.decide.economy.reuse import ToolExchange, exchange_kind
from everturn.decide.effects import FileRead
from everturn.history.records import Record
from everturn.measure.tool_table import ToolTable
from everturn.view.fragments.escaping import OUTPUT_TAG, escaped
from everturn.view.fragments.restored import exchange_text

EXCHANGE: Final = "restored_exchange"
_NUMBERED: Final = re.compile(r"[ ]{0,12}\d{1,9}[→\t](.*)")
_NOT_TEXT: Final = ("image", "document", "tool_reference")


class _Found(msgspec.Struct, frozen=True):
    """`at` orders them; those that an earlier compaction kept come first. `words` gives the whole text, which
    is not made of what is replaced anyway."""

    at: int
    tool: str
    path: str
    age: int
    words: Callable[[], str]


class _Candidate(msgspec.Struct, frozen=True):
    at: int
    shown: RestoredExchange
    tokens: int


def choose_exchanges(
    index: CallIndex,
    rule: KeepRule,
    estimate: Callable[[str], int],
    hidden: Mapping[str, object],
) -> tuple[RestoredExchange, ...]:
    """Those with the highest expected use per token, as long as they are worth it, oldest first."""
    tools = index.tools
    ages = _calls_after(index.records)
    found = [*_kept_before(index, ages), *_made(index, ages, hidden)]
    newest = {each.path: each.at for each in found}
    current = [_candidate(each, estimate) for each in found if not _is_replaced(each, newest, tools)]
    gains = {each.at: rule.gain(_exchange(each, tools)) for each in current}
    left = rule.max_tokens
    chosen: list[_Candidate] = []
    for each in sorted(current, key=lambda each: -gains[each.at]):
        if gains[each.at] > 0 and each.tokens <= left:
            left -= each.tokens
            chosen.append(each)
    return tuple(each.shown for each in sorted(chosen, key=lambda each: each.at))


def read_paths(kept: Sequence[RestoredExchange], tools: ToolTable) -> tuple[str, ...]:
    """The files that kept calls have read."""
    return tuple(dict.fromkeys(each.path for each in kept if each.path and _reads(each.tool, tools)))


def current_exchanges(
    kept: Sequence[RestoredExchange], files: Sequence[FileRead], tools: ToolTable
) -> tuple[RestoredExchange, ...]:
    """Without reads that show lines which their files no longer have. A file that cannot be read here, or not
    whole, says nothing: the read is kept, and says that it is of an earlier time."""
    now = {file.path: escaped(file.text) for file in files if not (file.problem or file.is_cut)}

    def is_current(each: RestoredExchange) -> bool:
        return not _reads(each.tool, tools) or each.path not in now or _shows(each, now[each.path])

    return tuple(filter(is_current, kept))


def _shows(read: RestoredExchange, text_now: str) -> bool:
    answer = read.text.partition(f"\n<{OUTPUT_TAG}>\n")[2].rpartition(f"\n</{OUTPUT_TAG}>")[0]
    lines = answer.splitlines()
    # Claude Code's reads number their lines; others beside those are remarks.
    numbered = [found[1] for line in lines if (found := _NUMBERED.match(line))]
    there = set(text_now.splitlines())
    return all(line in there for line in numbered or lines if line.strip())


def _reads(tool: str, tools: ToolTable) -> bool:
    return tools.find(tool).does == "reads"


def _exchange(each: _Candidate, tools: ToolTable) -> ToolExchange:
    return ToolExchange(
        exchange_kind(tools.find(each.shown.tool).does) or "other", each.tokens, each.shown.age
    )


def _is_replaced(each: _Found, newest: Mapping[str, int], tools: ToolTable) -> bool:
    """Whether it read a file that was read or changed later."""
    return bool(each.path) and newest[each.path] > each.at and _reads(each.tool, tools)


def _candidate(each: _Found, estimate: Callable[[str], int]) -> _Candidate:
    words = each.words()
    return _Candidate(each.at, RestoredExchange(each.tool, each.path, each.age, words), estimate(words))


def _calls_after(records: Sequence[Record]) -> list[int]:
    """For each record, how many responses begin after it."""
    found: list[int] = []
    count, last = 0, ""
    for record in reversed(records):
        found.append(count)
        if record.kind == "assistant" and (not record.message_id or record.message_id != last):
            count, last = count + 1, record.message_id
    return found[::-1]


def _kept_before(index: CallIndex, ages: Sequence[int]) -> list[_Found]:
    found = index.attached(EXCHANGE)
    return [
        _Found(
            number - len(found),
            text(each.payload.get("tool")),
            text(each.payload.get("path")),
            _number(each.payload.get("age")) + ages[each.at],
            partial(_last_part, each),
        )
        for number, each in enumerate(found)
        if each.parts
    ]


def _last_part(each: Attached) -> str:
    return each.parts[-1]


def _made(index: CallIndex, ages: Sequence[int], hidden: Mapping[str, object]) -> list[_Found]:
    found: list[_Found] = []
    for each in index.every():
        row = index.tools.find(each.tool)
        result = each.result
        if exchange_kind(row.does) is None or result is None or each.block.call in hidden:
            continue
        if each.failed or parts_inside(result, *_NOT_TEXT):
            continue
        path = _path(each, row.path)
        found.append(_Found(len(found), each.tool, path, ages[each.at], partial(_spell, each)))
    return found


def _spell(each: Called) -> str:
    return exchange_text(each.tool, each.given, each.answer)


def _path(call: Called, names: Sequence[str]) -> str:
    return next((path for name in names if (path := text(call.given.get(name)))), "")


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0
