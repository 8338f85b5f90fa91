"""What a recorded reply used and the request of a peer did not show (RP-6).

`replay/refetches` says what each reply needs. Here only requests are known, so what is in sight is looked up
in the words that are sent, whoever wrote them: a kept result, a preview, a summary, thinking. That is a
little kinder than the count for everturn, which trusts the blocks that it kept and searches only what stands
in their place.
"""

from collections.abc import Iterator, Sequence

from everturn.history.blocks import Block
from everturn.history.messages import find_last_prompt
from everturn.measure.model_table import model_or_default
from everturn.replay.refetches import Refetch, ThreadUses
from everturn.replay.refetches.cover import FetchedBlock, cover_missing
from everturn.replay.refetches.outputs import block_text, thinking_text
from everturn.replay.refetches.strings import NeededString, StringMatcher, occurs_in
from everturn.wire.anthropic import Request

_LONGEST_SHOWN = 80


class Sight:
    def __init__(self, uses: ThreadUses) -> None:
        self._uses = uses
        self._sieve = StringMatcher(uses.strings)
        self._held: dict[bytes, set[NeededString]] = {}

    def missing(self, replies: Sequence[str], request: Request) -> tuple[Refetch, ...]:
        """What the reply with these records needs and does not see."""
        number = next((self._uses.numbers[uuid] for uuid in replies if uuid in self._uses.numbers), 0)
        if not number:
            return ()
        asked = self._uses.calls[number - 1]
        blocks = list(_seen(request))
        calls = {block.call: _text(block) for block in blocks if block.is_call}
        seen: set[NeededString] = set().union(*(self._held_by(block, calls) for block in blocks))
        unseen: list[int] = []
        texts: list[str] = []
        for string in asked.uses:
            need = self._uses.strings[string]
            if need in seen:
                continue
            texts = texts or [self._uses.always, *map(_text, blocks)]
            if not any(occurs_in(need, text) for text in texts):
                unseen.append(string)
        return tuple(map(self._refetch, cover_missing(self._uses, asked, unseen)))

    def _held_by(self, block: Block, calls: dict[str, str]) -> set[NeededString]:
        held = self._held.get(block.raw)
        if held is None:
            asked = calls.get(block.call, "") if block.is_result else ""
            held = self._held[block.raw] = self._sieve.held(_text(block), asked)
        return held

    def _refetch(self, fetched: FetchedBlock) -> Refetch:
        kind, what = self._uses.strings[fetched.strings[0]]
        name = self._uses.blocks[fetched.block].name
        return Refetch(name, fetched.tokens, what[:_LONGEST_SHOWN], kind, fetched.tier)


def _seen(request: Request) -> Iterator[Block]:
    """What the model sees of a request: not the thinking of earlier turns, unless it keeps that."""
    keeps = model_or_default(request.model).model.keeps_thinking
    since = 0 if keeps else find_last_prompt(request.messages)
    for at, message in enumerate(request.messages):
        yield from (block for block in message.blocks if at >= since or not block.is_thinking)


def _text(block: Block) -> str:
    return thinking_text(block) if block.is_thinking else block_text(block)
