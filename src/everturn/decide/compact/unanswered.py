"""What the user said last and nobody has answered yet: it comes along word for word (CP-34).

Everything is summarized, the newest message too. A summary may paraphrase a conversation; the question that
the next reply has to answer must not be paraphrased.
"""

from collections.abc import Sequence
from typing import Final

from everturn.decide.compact.call_index import attached
from everturn.decide.compact.divide import is_said
from everturn.history.blocks import text_of
from everturn.history.records import Record

UNANSWERED: Final = "unanswered_message"


def unanswered(records: Sequence[Record]) -> str:
    """The words behind the last answer; also those that an earlier compaction carried and no reply followed.
    Results of tools are not words of the user."""
    found: list[str] = []
    for record in reversed(records):
        if record.kind == "assistant" and is_said(record):
            break
        found.extend(reversed(_words(record)))
    return "\n\n".join(reversed(found))


def _words(record: Record) -> list[str]:
    if record.subtype == UNANSWERED:
        return [part for each in attached([record], UNANSWERED) for part in each.parts[1:]]
    if record.kind != "user" or record.meta or record.compact_summary or not is_said(record):
        return []
    return [words for block in record.blocks if block.kind == "text" and (words := text_of(block)).strip()]
