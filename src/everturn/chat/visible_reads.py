"""Checks whether the model still sees the content of a file that it read (MC-18).

The answer comes from the messages as they are sent, so cleared, moved and summarized results do not count.
Results that the provider deleted on its side are left out too.
"""

from collections.abc import Callable

from everturn.history.blocks import text_of
from everturn.history.edits import CacheDeleted, ServerCleared
from everturn.history.log import View
from everturn.measure.accounting import path_read
from everturn.view.flatten import flatten


def sees_read(view: View, is_same_file: Callable[[str], bool], content: str) -> bool:
    """Whether a Read result in the view starts with this content. Text may follow it: memory files."""
    deleted = _deleted_calls(view)
    reads: set[str] = set()
    for message in flatten(view).messages:
        for block in message.blocks:
            if block.is_call and block.call not in deleted and is_same_file(path_read(block)):
                reads.add(block.call)
            elif block.is_result and block.call in reads and text_of(block).startswith(content):
                return True
    return False


def _deleted_calls(view: View) -> set[str]:
    deleted: set[str] = set()
    called: set[str] = set()
    for record in view.records:
        called.update(block.call for block in record.blocks if block.is_call)
        match record.edit:
            case CacheDeleted(calls=calls):
                deleted.update(calls)
            case ServerCleared():
                # The API reports how much it cleared, not which results: none before it is certain.
                deleted.update(called)
            case _:
                pass
    return deleted
