"""What a recording may have removed without telling: earlier thinking and old results behind a position."""

from collections.abc import Iterator, Sequence

import msgspec

from everturn.engine import Turn
from everturn.history.blocks import Block
from everturn.history.messages import Message
from everturn.replay.playing.player import Player


class Removable(msgspec.Struct, frozen=True):
    """`thinking` are the records of the first thinking that may go and of the first that must stay (that of
    the current tool loop; "" if the request is not within one). `results` are calls, the oldest first.
    """

    thinking: tuple[str, str] | None
    results: tuple[str, ...]


def find_removable(player: Player, turn: Turn, since: int) -> Removable:
    """What is behind that many tokens in the turn that the player has planned last."""
    behind = [block for block, start in _placed(player, turn) if start >= since]
    return Removable(_old_thinking(player, turn, behind), _old_results(player, turn, behind))


def _old_thinking(player: Player, turn: Turn, behind: Sequence[Block]) -> tuple[str, str] | None:
    may_go = {block.raw for block in behind if block.is_thinking}
    kept = {block.raw for block in _thinking_of_loop(turn.captured.messages)}
    first, until = "", ""
    for record in player.conversation.log.view.records:
        raws = {block.raw for block in record.blocks if block.is_thinking}
        if raws & kept:
            until = record.uuid
            break
        first = first or (record.uuid if raws & may_go else "")
    return (first, until) if first else None


def _thinking_of_loop(messages: Sequence[Message]) -> list[Block]:
    """The thinking since the last message without tool results: the API demands it in the mode `enabled`."""
    found: list[Block] = []
    for message in reversed(messages):
        if message.role == "user" and not any(block.is_result for block in message.blocks):
            break
        found += [block for block in message.blocks if block.is_thinking]
    return found


def _old_results(player: Player, turn: Turn, behind: Sequence[Block]) -> tuple[str, ...]:
    """The results of the last reply are not old: they are what the call answers."""
    hidden = player.conversation.log.view.cleared
    last = turn.captured.messages[-1].blocks if turn.captured.messages else ()
    new = {block.call for block in last if block.is_result}
    return tuple(
        block.call
        for block in behind
        if block.is_result and block.call not in new and block.call not in hidden
    )


def _placed(player: Player, turn: Turn) -> Iterator[tuple[Block, int]]:
    """The blocks of the messages with their first position in tokens."""
    prompt = player.forecast.prompt
    blocks = [block for message in turn.captured.messages for block in message.blocks]
    if prompt is None:
        return
    first = len(prompt.ends) - len(blocks)
    for at, block in enumerate(blocks, start=first):
        yield block, prompt.ends[at - 1] if at else 0
