"""The model that writes everybody's summaries: it reads what the request for one holds, and no more.

Peers ask in their own words and show a transcript that they cut as they like. So each block of the
conversation counts with as much of its beginning as stands in the request, and the summarizer that everturn's
replays use (`decide/extractive/`) writes from these. An earlier summary counts where the request shows it.
"""

import re
from collections.abc import Iterable, Iterator

import msgspec

from everturn.decide.extractive import summarize
from everturn.history.blocks import Block, block_from_fields, fields_of, text_block
from everturn.history.records import Record, is_sent
from everturn.replay.refetches.outputs import block_text

_MARKS = re.compile(r"[\W_]+")
# Less than this could stand anywhere; a text that is shorter has to be there as a whole.
_SHORTEST = 40
_ESCAPES = (("\\n", "\n"), ("\\t", "\t"), ('\\"', '"'), ("\\\\", "\\"))


class Listener:
    """Knows what was said in one conversation, and writes when asked. `asked`: the requests and answers."""

    def __init__(self) -> None:
        self._known: list[Record] = []
        self._written = 0
        self.asked: list[tuple[str, str]] = []

    def tell(self, records: Iterable[Record]) -> None:
        self._known += [record for record in records if is_sent(record)]

    def write(self, request: str) -> str:
        text = summarize(list(self._shown(request))).text
        self.asked.append((request, text))
        return text

    def _shown(self, request: str) -> Iterator[Record]:
        heard = _Heard(request)
        earlier = self.asked[-1][1] if self.asked else ""
        if earlier and heard.part_of(earlier):
            yield Record(kind="user", uuid="summary", compact_summary=True, blocks=(text_block(earlier),))
        for record in self._known:
            blocks = tuple(filter(None, (_as_heard(block, heard) for block in record.blocks)))
            if blocks:
                yield msgspec.structs.replace(record, blocks=blocks)


class _Heard:
    def __init__(self, request: str) -> None:
        plain = request
        for escaped, meant in _ESCAPES:
            plain = plain.replace(escaped, meant)
        self._texts = tuple({_squeezed(request), _squeezed(plain)})

    def part_of(self, text: str) -> float:
        """The share of a text, from its beginning on, that stands in the request."""
        wanted = _squeezed(text)
        if not wanted or self._has(wanted):
            return 1.0 if wanted else 0.0
        least, most = _SHORTEST, len(wanted)
        if most <= least or not self._has(wanted[:least]):
            return 0.0
        while most - least > 1:
            middle = (least + most) // 2
            least, most = (middle, most) if self._has(wanted[:middle]) else (least, middle)
        return least / len(wanted)

    def _has(self, text: str) -> bool:
        return any(text in each for each in self._texts)


def _squeezed(text: str) -> str:
    """Letters and digits only: how a transcript is quoted and broken into lines does not count."""
    return _MARKS.sub("", text)


def _as_heard(block: Block, heard: _Heard) -> Block | None:
    words = block_text(block)
    part = heard.part_of(words)
    if part == 1.0 or (part and block.is_call):
        return block
    if not part:
        return None
    cut = words[: round(part * len(words))]
    return block_from_fields({**fields_of(block), "content": cut}) if block.is_result else text_block(cut)
