"""The tool loop at the end of a conversation, and what the API demands of it (CP-38).

In the thinking mode `enabled` an unfinished turn must begin with thinking (api-facts 5). A loop that lost its
first reply to a compaction, or never had thinking, cannot be sent as it is. Its calls and results can be told
as text instead: then the last message is an ordinary one of the user, which is valid in every mode.
"""

from collections.abc import Collection, Sequence

from everturn.history.blocks import Block
from everturn.history.messages import Message
from everturn.view.fragments.told_result import told_calls, told_result


def demands_thinking(thinking: str) -> bool:
    """Whether the API demands thinking at the start of a tool loop in this mode of thinking."""
    return thinking == "enabled"


def lacks_thinking(messages: Sequence[Message], thinking: str) -> bool:
    """Whether the API would refuse the current turn because it does not begin with thinking."""
    first = _start_of_loop(messages) if demands_thinking(thinking) else None
    return first is not None and not messages[first].blocks[0].is_thinking


def unsendable_calls(messages: Sequence[Message], thinking: str) -> tuple[str, ...]:
    """The calls of the current tool loop, if the API would refuse them in this mode of thinking."""
    first = _start_of_loop(messages)
    if first is None or not lacks_thinking(messages, thinking):
        return ()
    said = (message for message in messages[first:] if message.role == "assistant")
    return tuple(block.call for message in said for block in message.blocks if block.is_call)


def _start_of_loop(messages: Sequence[Message]) -> int | None:
    """The first reply of the current turn, if only messages with results followed it."""
    first = None
    for at in range(len(messages) - 1, -1, -1):
        message = messages[at]
        if message.role == "assistant":
            first = at
        elif not any(block.is_result for block in message.blocks):
            break
    return first


def tell_as_text(
    said: Sequence[Block], answer: Sequence[Block], calls: Collection[str]
) -> tuple[tuple[Block, ...], tuple[Block, ...]]:
    """A reply and the message that answers it, with those calls and their results as text."""
    told = {block.call: block for block in said if block.is_call and block.call in calls}
    if not told:
        return tuple(said), tuple(answer)
    rest = (block for block in said if block.call not in told)
    results = [block for block in answer if block.is_result and block.call in told]
    # Results that stay blocks come first, as the API demands.
    first = [block for block in answer if block.is_result and block.call not in told]
    last = [block for block in answer if not block.is_result]
    words = (part for result in results for part in told_result(told[result.call], result))
    names = list(dict.fromkeys(call.tool for call in told.values()))
    return (*rest, told_calls(names)), (*first, *words, *last)
