"""What the direct call sends to be summarized (CP-2). A fork sends its parent's bytes untouched instead.

Pictures and documents become markers, what will be restored anyway is left out, and so is thinking: the
request thinks anew or not at all, and an edited prefix would make recorded thinking invalid (PC-16).
"""

from collections.abc import Sequence

import msgspec

from everturn.decide.compact.call_index import is_one_of
from everturn.decide.compact.settings import CompactSettings
from everturn.history.blocks import Block, block_from_fields, fields_of, parts_of, text_block
from everturn.history.log import View
from everturn.history.messages import Message
from everturn.history.records import Record
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
    """The messages with the prompt as the last thing said."""
    block = text_block(prompt)
    if messages and messages[-1].role == "user":
        return (*messages[:-1], Message("user", (*messages[-1].blocks, block)))
    return (*messages, Message("user", (block,)))


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
