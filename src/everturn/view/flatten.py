"""Flattens a view into the messages of an API request (FLAT-1..8).

Flattening is a fold. Everything between two model responses is one user message; the parts of a response are
one assistant message, even if results were recorded between them. A turn (the response and its answer) is
open while records are still added to it, and never changes once the next response has begun. So adding a
record costs only that record, and what was sent before is sent again byte for byte.

What the API would refuse is repaired turn by turn (`history/repair.py`); each change is reported.
"""

from collections import ChainMap
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from typing import Final, NamedTuple

import msgspec

from everturn.history.blocks import SYSTEM_TEXT, TOOL_RESULT, TOOL_USE, Block, fields_of, text_block
from everturn.history.edits import (
    CacheDeleted,
    CacheDeletionsEnded,
    Cleared,
    Edit,
    Offloaded,
    ThinkingDropped,
    ToldAsText,
)
from everturn.history.log import View
from everturn.history.messages import Message, is_blank, is_user_prompt
from everturn.history.records import PAUSED, Record, is_sent, is_unfinished
from everturn.history.repair import (
    Repair,
    distinct_calls,
    end_server_calls,
    open_server_calls,
    pair_results,
    server_calls_under_way,
)
from everturn.view.cache_edits import CACHE_EDITS, References, edits_block, with_cache_reference
from everturn.view.fragments.beginning import BEGINNING
from everturn.view.fragments.cleared import cleared
from everturn.view.fragments.offloaded import offloaded
from everturn.view.fragments.reminder import attachment_words, reminder
from everturn.view.fragments.unspoken import UNSPOKEN
from everturn.view.tool_inputs import Schemas, fitted_call
from everturn.view.tool_loop import tell_as_text
from everturn.view.tool_references import with_offered_references

LEFT_OUT: Final = Repair("trailing_thinking", "", "a last message with only thinking is left out")


class Flat(msgspec.Struct, frozen=True):
    """Messages that the API accepts, and the repairs that this needed."""

    messages: tuple[Message, ...]
    repairs: tuple[Repair, ...] = ()


class _Turn:
    """A response and its answer, while records are still added to them."""

    def __init__(self) -> None:
        self.message_id = ""
        # The API stopped within its own tools and goes on when it gets the reply back (`pause_turn`).
        self.is_paused = False
        # The model goes on with the reply: it was paused, or the caller has begun it.
        self.is_unfinished = False
        self.said: list[Block] = []
        self.results: list[Block] = []
        self.deletions: list[Block] = []
        # A summary comes before all other content of its message.
        self.summary: list[Block] = []
        self.reminders: list[Block] = []
        self.words: list[Block] = []

    @property
    def is_answered(self) -> bool:
        # Deletions alone are not an answer: once they end, the message would be empty.
        return any((self.results, self.summary, self.reminders, self.words))

    def goes_on(self, under_way: Sequence[Block]) -> bool:
        """Whether the model goes on with the reply, as long as nobody says anything behind it. `under_way`:
        calls of the provider's own tools in earlier replies."""
        if self.is_unfinished and not self.is_answered:
            return True
        is_silent = all(map(_is_beside, (*self.summary, *self.words)))
        return is_silent and bool(open_server_calls([*under_way, *self.said]))

    @property
    def waits(self) -> bool:
        return any(block.is_call for block in self.said)


class _Rendered(NamedTuple):
    """A turn as messages, with the repairs that they needed and the ids of calls that they use."""

    messages: list[Message]
    repairs: list[Repair]
    used: Mapping[str, int]


class Flattener:
    """Folds records into messages, one at a time."""

    def __init__(
        self,
        *,
        hidden: Iterable[str] = (),
        offloaded: Mapping[str, Offloaded] | None = None,
        tools: Schemas | None = None,
        offered: frozenset[str] | None = None,
        references: References = "none",
    ) -> None:
        self._tools: Schemas = tools or {}
        # The names of the tools that the request offers; None: not known, every reference to a tool stays.
        self._offered = offered
        self._references = references
        self._start = frozenset(hidden), dict(offloaded or {})
        # All added records, to fold them again with other schemas.
        self._added: list[Record] = []
        # The first message that changed since the last call of `take_changes`.
        self._changed_from = 0
        self._begin()

    def _begin(self) -> None:
        hidden, offloaded = self._start
        self._hidden = set(hidden)
        self._offloaded = dict(offloaded)
        # Calls that are told as text, with their results.
        self._told: set[str] = set()
        self._closed: list[Message] = []
        self._repairs: list[Repair] = []
        self._used: dict[str, int] = {}
        self._answered_in: dict[str, int] = {}
        self._place_of: dict[str, int] = {}
        self._turn = _Turn()
        # Calls of the provider's own tools without a result: code that calls tools waits for theirs.
        self._under_way: list[Block] = []
        # The open turn as it would be sent, until a record is added.
        self._open: _Rendered | None = None
        # Results that the provider was told to delete: sent, but not shown to the model.
        self.deleted: set[str] = set()
        # The summary in view, and what was restored with it.
        self._compaction: set[str] = set()

    def set_tools(self, tools: Schemas, offered: frozenset[str] | None = None) -> None:
        """Fit every call to these schemas (FLAT-5), and refer only to tools that are offered. What is sent
        depends only on the records and the tools, so a session that is opened again sends the same bytes.
        Tools come before the messages: if they change, no message is in the cache anyway.
        """
        if (tools, offered) == (self._tools, self._offered):
            return
        before, added, self._tools, self._offered = self._closed, self._added, tools, offered
        self._added = []
        self._begin()
        changed_from = self._changed_from
        for record in added:
            self.add(record)
        pairs = zip(before, self._closed, strict=False)
        same = next((at for at, (old, new) in enumerate(pairs) if old != new), len(self._closed))
        self._changed_from = min(changed_from, same)

    def add(self, record: Record) -> None:
        self._added.append(record)
        rendered, self._open = self._open, None
        if record.edit is not None:
            self._apply(record.edit)
        # The content of a reply comes before its answer, even if it was recorded later.
        self._place_of[record.uuid] = len(self._closed) + bool(self._turn.said)
        if not is_sent(record):
            return
        if record.kind == "assistant":
            self._hear(record, rendered)
        elif record.kind == "attachment":
            self._remind(record)
        else:
            self._answer(record)

    def flat(self) -> Flat:
        """The current messages, and all repairs that they needed."""
        repairs: list[Repair] = []
        messages = self.since(0, repairs)
        return Flat(tuple(messages), (*self._repairs, *repairs))

    def since(self, first: int, repairs: list[Repair] | None = None) -> list[Message]:
        """The messages from that index on. The open turn is completed in the returned
        value, not in the fold.
        """
        self._open = self._open or self._render_open()
        messages = [*self._closed[first:], *self._open.messages]
        noted = list(self._open.repairs)
        if messages and messages[-1].role == "assistant" and _says_nothing(messages[-1].blocks):
            noted.append(LEFT_OUT)
            messages.pop()
        if repairs is not None:
            repairs += noted
        return messages

    def _render_open(self) -> _Rendered:
        repairs: list[Repair] = []
        used: dict[str, int] = {}
        last = self._rendered(self._turn, ChainMap(used, self._used), repairs)
        return _Rendered(_started(self._closed, last, repairs), repairs, used)

    @property
    def repairs(self) -> tuple[Repair, ...]:
        """The repairs so far, including the open turn; closed turns are not examined again."""
        noted: list[Repair] = []
        self.since(len(self._closed), noted)
        return (*self._repairs, *noted)

    @property
    def in_tool_loop(self) -> bool:
        """Whether the next request goes on with an unfinished turn: it answers tool calls, or sends back a
        paused reply. The API requires the thinking of that turn unchanged.
        """
        turn, told = self._turn, self._told
        if any(block.kind == TOOL_USE and block.call not in told for block in turn.said):
            return True
        return not turn.is_answered and (turn.is_paused or bool(open_server_calls(turn.said)))

    @property
    def ends_in_prompt(self) -> bool:
        """Whether the last message is a prompt, even if it answers tool calls too."""
        last = self.since(len(self._closed))
        return bool(last) and is_user_prompt(last[-1])

    def place_of(self, uuid: str) -> int:
        """The index of the message that this record is part of; -1 for a record that is not in view."""
        return self._place_of.get(uuid, -1)

    def _hear(self, record: Record, rendered: _Rendered | None) -> None:
        """`rendered` is the open turn as it was sent, if nothing was added to it since."""
        turn = self._turn
        is_same = bool(record.message_id) and record.message_id == turn.message_id
        heard = self._heard(record.blocks, turn.said if is_same else ())
        if not heard:
            # A reply without visible text does not end a turn: two user messages would follow each other.
            return
        if not is_same and (turn.is_answered or turn.waits):
            turn = self._close(rendered)
        elif record.message_id and not is_same and turn.message_id and _says_nothing(turn.said):
            # Its request left out what was only thinking. To send it now would put it before a reply that is
            # bound to a conversation without it.
            self._repairs.append(LEFT_OUT)
            turn.said.clear()
        turn.message_id = record.message_id or turn.message_id
        turn.is_paused = record.reply is not None and record.reply.stop_reason == PAUSED
        turn.is_unfinished = is_unfinished(record)
        self._place_of[record.uuid] = len(self._closed)
        turn.said += heard

    def _heard(self, blocks: Iterable[Block], before: Sequence[Block]) -> list[Block]:
        heard: list[Block] = []
        for block in blocks:
            if block in before:
                what = "the same block was recorded twice"
                self._repairs.append(Repair("repeated_block", block.call, what))
            elif block.is_result:
                heard.append(self._misplaced(block))
            elif not self._is_dropped(block):
                fitted = fitted_call(block, self._tools, self._repairs)
                heard.append(with_offered_references(fitted, self._offered, self._repairs))
        return heard

    def _answer(self, record: Record) -> None:
        if record.compact_summary:
            self._compaction.add(record.uuid)
        words = self._turn.summary if record.compact_summary else self._turn.words
        for block in record.blocks:
            if block.is_result:
                self._turn.results.append(block)
            elif block.is_call or block.is_thinking:
                words.append(self._misplaced(block))
            elif not self._is_dropped(block):
                words.append(block)

    def _remind(self, record: Record) -> None:
        if not (words := attachment_words(record.blocks[0])):
            return
        block = reminder(words)
        is_restored = record.parent in self._compaction
        if is_restored:
            self._compaction.add(record.uuid)
        # Elsewhere it would change what thinking in the reply is bound to.
        at = self._place_before_open_reply() if is_restored and self._turn.goes_on(self._under_way) else -1
        if at < 0:
            self._turn.reminders.append(block)
            return
        self._remake(at, (*self._closed[at].blocks, block))
        self._place_of[record.uuid] = at

    def _place_before_open_reply(self) -> int:
        """Where what a compaction restores stands, if it keeps a reply that goes on: in the last message of
        the user that may have more text; -1 if there is none. Behind the reply it would end it, and so would
        text beside results that came during its search."""
        for at in range(len(self._closed) - 1, -1, -1):
            message = self._closed[at]
            if message.role == "user":
                replies = (each for each in self._closed[:at] if each.role == "assistant")
                said = [block for reply in replies for block in reply.blocks]
                if not all(map(_is_beside, message.blocks)) or not open_server_calls(said):
                    return at
        return -1

    def _is_dropped(self, block: Block) -> bool:
        if not is_blank(block):
            return False
        self._repairs.append(Repair("blank_text", "", "a text without a visible character is left out"))
        return True

    def _misplaced(self, block: Block) -> Block:
        what = f"a {block.kind} block in the other role's message is shown as text"
        self._repairs.append(Repair("misplaced_block", block.call, what))
        return text_block(block.raw.decode())

    def _close(self, rendered: _Rendered | None) -> _Turn:
        # What was sent stays the same objects: whoever compares messages need not look into them.
        made = rendered or self._render_open()
        self._repairs += made.repairs
        self._used.update(made.used)
        for message in made.messages:
            for call in message.results:
                self._answered_in[call] = len(self._closed)
            self._closed.append(message)
            self._follow_server_calls(message)
        self._turn = _Turn()
        return self._turn

    def _follow_server_calls(self, message: Message) -> None:
        if message.role == "user":
            if not all(map(_is_beside, message.blocks)):
                self._under_way = []
        else:
            self._under_way = server_calls_under_way([*self._under_way, *message.blocks])

    def _rendered(self, turn: _Turn, used: MutableMapping[str, int], repairs: list[Repair]) -> list[Message]:
        said = distinct_calls(turn.said, used, repairs)
        calls = [block for block in said if block.is_call]
        recorded = [block.call for block in dict.fromkeys(turn.said) if block.is_call]
        results, strays = pair_results(calls, turn.results, recorded, repairs)
        results = [with_offered_references(each, self._offered, repairs) for each in results]
        shown = (*map(self._shown_as, results), *turn.deletions)
        words = (*turn.summary, *strays, *turn.reminders, *turn.words)
        answer = (*shown, *words)
        is_told = any(block.call in self._told for block in calls)
        ends = is_told or (bool(words) and not (results and all(map(_is_beside, words))))
        if ends and said:
            said = end_server_calls(said, repairs, before=self._under_way)
        if is_told:
            said, answer = tell_as_text(said, answer, self._told)
        made = [Message("assistant", tuple(said))] if said else []
        return [*made, Message("user", answer)] if answer else made

    def _shown_as(self, block: Block) -> Block:
        if block.call in self._hidden:
            block = cleared(block)
        elif block.call in self._offloaded:
            block = offloaded(block, self._offloaded[block.call])
        return with_cache_reference(block) if self._references == "all" else block

    def _apply(self, edit: Edit) -> None:
        """Apply an edit to what was already folded. Only the messages that it affects are rebuilt."""
        match edit:
            case Cleared(calls=calls):
                new = set(calls) - self._hidden
                self._hidden |= new
                self._remake_results(new)
            case Offloaded(call=call):
                self._offloaded[call] = edit
                self._remake_results({call})
            case ThinkingDropped(since=since, until=until):
                # A record that is not in view lies before all that are.
                end = self._place_of.get(until, 0) if until else len(self._closed) + 1
                self._drop_thinking(self._place_of.get(since, 0), end)
            case ToldAsText(calls=calls):
                self._tell(set(calls))
            case CacheDeleted(calls=calls):
                self.deleted.update(calls)
                self._turn.deletions.append(edits_block(calls))
                self._note_change(self._answered_in[call] for call in calls if call in self._answered_in)
            case CacheDeletionsEnded():
                self._end_deletions()
            case _:
                pass

    def _remake_results(self, calls: set[str]) -> None:
        for at in sorted({self._answered_in[call] for call in calls if call in self._answered_in}):
            blocks = self._closed[at].blocks
            self._remake(at, [self._shown_as(b) if b.is_result and b.call in calls else b for b in blocks])

    def _tell(self, calls: set[str]) -> None:
        self._told |= calls
        for at in sorted({self._answered_in[call] for call in calls if call in self._answered_in}):
            said = self._end_told_reply(at - 1, self._closed[at - 1].blocks)
            said, answer = tell_as_text(said, self._closed[at].blocks, calls)
            self._remake(at - 1, said)
            self._remake(at, answer)

    def _end_told_reply(self, at: int, said: Sequence[Block]) -> Sequence[Block]:
        """A reply that text follows now. What a tool of the provider's gave for it in a later reply moves
        here: behind text the API takes no more results for it."""
        under_way = {str(call.get("id", "")) for call in open_server_calls(said)}
        if not under_way:
            return said
        found: list[Block] = []

        def take(blocks: Sequence[Block]) -> list[Block]:
            moved = [block for block in blocks if block.call in under_way and _is_server_result(block)]
            found.extend(moved)
            return [block for block in blocks if block not in moved] or [UNSPOKEN] if moved else list(blocks)

        for later in range(at + 1, len(self._closed)):
            message = self._closed[later]
            if message.role == "assistant" and (rest := take(message.blocks)) != list(message.blocks):
                self._remake(later, rest)
        self._turn.said = take(self._turn.said)
        self._under_way = [call for call in self._under_way if fields_of(call).get("id") not in under_way]
        return end_server_calls([*said, *found], self._repairs)

    def _drop_thinking(self, since: int, end: int) -> None:
        for at in range(since, min(end, len(self._closed))):
            blocks = self._closed[at].blocks
            if any(block.is_thinking for block in blocks):
                self._remake(at, _without_thinking(blocks))
        if since <= len(self._closed) < end and any(block.is_thinking for block in self._turn.said):
            self._turn.said = _without_thinking(self._turn.said)

    def _end_deletions(self) -> None:
        self._note_change(self._answered_in[call] for call in self.deleted if call in self._answered_in)
        self.deleted.clear()
        self._turn.deletions.clear()
        for at, message in enumerate(self._closed):
            if any(block.kind == CACHE_EDITS for block in message.blocks):
                self._remake(at, [block for block in message.blocks if block.kind != CACHE_EDITS])

    def _remake(self, at: int, blocks: Iterable[Block]) -> None:
        self._closed[at] = Message(self._closed[at].role, tuple(blocks))
        self._note_change([at])

    def _note_change(self, places: Iterable[int]) -> None:
        self._changed_from = min((self._changed_from, *places))

    def take_changes(self) -> int:
        """The index of the first message that changed since the last call of this method."""
        changed, self._changed_from = self._changed_from, len(self._closed)
        return changed


def _is_beside(block: Block) -> bool:
    """Whether a block leaves a search under way as it is: a result, or a message with role "system"."""
    return block.kind in (TOOL_RESULT, SYSTEM_TEXT, CACHE_EDITS)


def _is_server_result(block: Block) -> bool:
    """Whether a block is what a tool of the provider's has given."""
    return block.kind != TOOL_RESULT and block.kind.endswith(TOOL_RESULT)


def _says_nothing(blocks: Sequence[Block]) -> bool:
    """Whether a reply was only thinking, or only what replaces it. Such a reply is not sent as the last
    message: the API refuses thinking there, and would take the replacement for the beginning of its answer.
    """
    return bool(blocks) and all(block.is_thinking or block is UNSPOKEN for block in blocks)


def _without_thinking(blocks: Iterable[Block]) -> list[Block]:
    return [block for block in blocks if not block.is_thinking] or [UNSPOKEN]


def is_shown_to_user(record: Record) -> bool:
    """Whether a record is part of the conversation as the user sees it (FLAT-7)."""
    return is_sent(record) and not (record.kind == "user" and (record.meta or record.transcript_only))


def flatten(view: View, tools: Schemas | None = None) -> Flat:
    """The messages of a view."""
    flattener = Flattener(hidden=view.cleared, offloaded=view.offloaded, tools=tools)
    for record in view.records:
        flattener.add(record)
    return flattener.flat()


def _started(before: Sequence[Message], made: list[Message], repairs: list[Repair]) -> list[Message]:
    if before or not made or made[0].role == "user":
        return made
    repairs.append(
        Repair("missing_start", "", "the log begins with a reply; a first message was added before it")
    )
    return [Message("user", (BEGINNING,)), *made]
