"""What the direct call sends to be summarized (CP-2). A fork sends its parent's bytes untouched instead.

Pictures and documents become markers, and so do references to tools, which this request has none of. What
will be restored anyway is left out, and so is thinking: the request thinks anew or not at all, and an edited
prefix would make recorded thinking invalid (PC-16).
"""

from collections.abc import Sequence

import msgspec

from everturn.decide.compact.call_index import is_one_of
from everturn.decide.compact.settings import CompactSettings
from everturn.history.blocks import Block, block_from_fields, fields_of, parts_of, text_block
from everturn.history.log import View
from everturn.history.messages import Message
from everturn.history.records import Record
from everturn.history.repair import end_server_calls, open_server_calls
from everturn.view.cache_edits import CACHE_EDITS
from everturn.view.flatten import flatten
from everturn.view.fragments.stand_in import stand_in
from everturn.view.fragments.unspoken import UNSPOKEN


def prepare_messages(view: View, records: Sequence[Record], settings: CompactSettings) -> tuple[Message, ...]:
    """These records of the view as messages, ready for a prompt behind them (`with_prompt`)."""
    shown = [each for each in records if not _comes_back(each, settings)]
    flat = flatten(msgspec.structs.replace(view, records=shown))
    return tuple(Message(each.role, _blocks(each)) for each in flat.messages)


def with_prompt(messages: Sequence[Message], prompt: str) -> tuple[Message, ...]:
    """The messages with the prompt as the last thing said. It ends what the provider's own tools have under
    way, as other words of the user do."""
    messages, block = end_open_search(messages), text_block(prompt)
    if messages and messages[-1].role == "user":
        return (*messages[:-1], Message("user", (*messages[-1].blocks, block)))
    return (*messages, Message("user", (block,)))


def end_open_search(messages: Sequence[Message]) -> Sequence[Message]:
    """A summary prompt ends a turn: calls of the provider's own tools get no result any more, also where
    calls of the session's tools stand beside them. Only the last reply changes: what stands before it stays
    as it was sent, and its calls may still run (code that calls several tools, one after the other)."""
    replies = [at for at, message in enumerate(messages) if message.role == "assistant"]
    said = [block for at in replies for block in messages[at].blocks]
    if not open_server_calls(said):
        return messages
    *earlier, last = replies
    before = [block for at in earlier for block in messages[at].blocks]
    ended = end_server_calls(messages[last].blocks, [], before=before)
    return (*messages[:last], Message("assistant", tuple(ended)), *messages[last + 1 :])


def _comes_back(record: Record, settings: CompactSettings) -> bool:
    return record.kind == "attachment" and is_one_of(record.subtype, settings.restorable)


def _blocks(message: Message) -> tuple[Block, ...]:
    kept = [each for each in message.blocks if not each.is_thinking and each.kind != CACHE_EDITS]
    return tuple(map(_plain, kept)) or (UNSPOKEN,)


def _plain(block: Block) -> Block:
    if block.is_result:
        return _plain_result(block)
    return stand_in(block) or block


def _plain_result(block: Block) -> Block:
    parts = parts_of(block)
    if not any(stand_in(part) for part in parts):
        return block
    content = [fields_of(stand_in(part) or part) for part in parts]
    return block_from_fields({**fields_of(block), "content": content})
