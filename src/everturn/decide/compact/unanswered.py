"""What the user or a tool said last and nobody has answered yet (CP-37).

A summary may paraphrase a conversation; what the next reply has to answer must not be paraphrased. Where it
fits it is kept as it was recorded, pictures and documents included (`plan.py`); where it does not, its head
and its tail come along as text.
"""

from collections.abc import Mapping, Sequence, Set
from typing import Any, Final

from everturn.decide.authorship import typed_words
from everturn.decide.compact.call_index import attached
from everturn.decide.compact.divide import is_said
from everturn.decide.compact.settings import CompactSettings
from everturn.history.blocks import Block, text_of
from everturn.history.records import PAUSED, Record, is_unfinished
from everturn.history.rounds import find_cut_points
from everturn.measure.model import Model
from everturn.measure.model_table import find_model
from everturn.measure.reserves import below
from everturn.view.fragments.escaping import escaped
from everturn.view.fragments.stand_in import stand_in
from everturn.view.fragments.told_result import told_result

UNANSWERED: Final = "unanswered_message"
NOT_TYPED: Final = "(A program put this there; the user did not type it.)"


def start_of_unanswered(records: Sequence[Record]) -> int:
    """The cut before everything that has no answer yet, the calls of its results included; 0 if everything
    was answered, or nothing was said before. Behind a summary that no reply followed, it is what was said
    since."""
    last = _last_reply(records)
    first = _first_open(records, last + 1)
    if first is None:
        return 0
    limit = last + 1 if last >= 0 else first
    return max((cut for cut in find_cut_points(records) if cut <= limit), default=0)


def start_of_paused_turn(records: Sequence[Record]) -> int:
    """The cut before the question of a turn whose last reply the API has paused; 0 if it has not, or if the
    turn began before these records."""
    said = [at for at, record in enumerate(records) if is_said(record)]
    last = records[said[-1]] if said else None
    if last is None or last.reply is None or last.reply.stop_reason != PAUSED:
        return 0
    asked = (at for at in reversed(said) if _is_input(records[at]) and not _is_result(records[at]))
    limit = next(asked, 0)
    return max((cut for cut in find_cut_points(records) if cut <= limit), default=0)


def has_unanswered(records: Sequence[Record]) -> bool:
    """Whether something was said behind the last reply, or a call waits for its result."""
    return _first_open(records, _last_reply(records) + 1) is not None


def has_open_calls(records: Sequence[Record]) -> bool:
    """Whether the newest reply waits for results of its calls."""
    return any(_calls_of(record) for record in records[_last_reply(records) + 1 :])


def room_for_newest(model: Model, fields: Mapping[str, Any], settings: CompactSettings) -> int:
    """The most tokens of a request that has to hold what was said last: before any of it is cut, the reserve
    for output shrinks to a short answer. A model that refuses a request because of the answer that it may
    give needs room for all of `max_tokens`, in its own window."""
    room = below(model.window, settings.least_answer)
    if not model.refuses_overflow:
        return room
    return min(room, widest_window(model) - int(fields.get("max_tokens", 0)))


def widest_window(model: Model) -> int:
    """A smaller window may be configured; the API takes what the model takes."""
    listed = find_model(model.id)
    return max(model.window, listed.window if listed else 0)


def start_of_last_round(records: Sequence[Record]) -> int:
    """The cut before the last response; 0 if there is none, or nothing before it."""
    last = _last_reply(records)
    return max((cut for cut in find_cut_points(records) if cut <= last), default=0)


def unanswered_parts(records: Sequence[Record]) -> list[str]:
    """The words behind the last reply, and what its calls gave; also those words that an earlier compaction
    carried and no reply followed. Nothing in it can close a wrapper; what tools gave is marked as theirs."""
    since = records[_last_reply(records) + 1 :]
    has_results = any(block.is_result for record in since for block in record.blocks)
    searched = records if has_results else ()
    calls = {block.call: block for record in searched for block in record.blocks if block.is_call}
    return [part for record in since for part in _words(record, calls)]


def _last_reply(records: Sequence[Record]) -> int:
    """The last reply that is complete. One that the model is to go on with, or that waits for results of its
    calls, is no answer yet: it is kept with what it answers."""
    is_followed, message = False, ""
    results: set[str] = set()
    for at in range(len(records) - 1, -1, -1):
        record = records[at]
        if not is_said(record):
            continue
        if _ends_calls(record):
            return next((said for said in range(at - 1, -1, -1) if _is_reply(records[said])), -1)
        if record.kind == "user":
            is_followed = True
            results |= _results_of(record)
            continue
        # A response may have several records, and only the last of them says that it was paused.
        is_same = bool(message) and record.message_id == message
        goes_on = is_unfinished(record) and not is_followed
        if not (is_same or goes_on or _waits(records, at, results)):
            return at
        message = record.message_id
    return -1


def _waits(records: Sequence[Record], at: int, results: Set[str]) -> bool:
    """Whether the reply that ends here has a call without a result. `results` are those recorded behind it;
    with split replies, some are recorded between their parts."""
    calls, found = _calls_of(records[at]), set(results)
    message = records[at].message_id
    for record in reversed(records[:at] if message else ()):
        if record.kind == "user":
            found |= _results_of(record)
        elif _is_reply(record):
            if record.message_id != message:
                break
            calls |= _calls_of(record)
    return not calls <= found


def _ends_calls(record: Record) -> bool:
    """Whether calls that still wait behind this are over: the conversation went on without their results. A
    result may come with words, and a program may add to it."""
    return record.compact_summary or (_is_input(record) and not _is_result(record))


def _is_reply(record: Record) -> bool:
    return record.kind == "assistant" and is_said(record)


def _first_open(records: Sequence[Record], start: int) -> int | None:
    """Input that has no answer, or a reply that waits for results of its calls."""
    behind = range(start, len(records))
    return next((at for at in behind if _is_input(records[at]) or _calls_of(records[at])), None)


def _is_input(record: Record) -> bool:
    is_own = record.meta or record.compact_summary
    return record.kind == "user" and not is_own and is_said(record)


def _is_result(record: Record) -> bool:
    return bool(_results_of(record))


def _results_of(record: Record) -> set[str]:
    return {block.call for block in record.blocks if block.is_result}


def _calls_of(record: Record) -> set[str]:
    """The ids of the calls in a reply that the model sees."""
    return {block.call for block in record.blocks if block.is_call} if _is_reply(record) else set()


def _words(record: Record, calls: dict[str, Block]) -> list[str]:
    if record.subtype == UNANSWERED:
        return [part for each in attached([record], UNANSWERED) for part in each.parts[1:]]
    if not _is_input(record):
        return []
    found = (words for block in record.blocks if (words := _text(block, calls)).strip())
    return list(found)


def _text(block: Block, calls: dict[str, Block]) -> str:
    if block.is_result:
        call = calls.get(block.call)
        parts = told_result(call, block) if call else ()
        return "\n".join(text_of(stand_in(part) or part) for part in parts)
    words = text_of(stand_in(block) or block)
    # What a program put there needs an answer too, but it is not the user's.
    is_foreign = block.kind == "text" and words.strip() and not typed_words(words)
    return f"{NOT_TYPED}\n{escaped(words)}" if is_foreign else escaped(words)
