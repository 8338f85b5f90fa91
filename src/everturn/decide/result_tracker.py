"""The tool results that the model can see: which may be cleared, their size, which are new (MC-2, MC-8).

A fold over the records of a view; adding one costs only that record. Clearing, offloading and deleting are
edits in the log and are tracked here. When the log says that the view was replaced (a compaction, an undo, a
trim), a new `ResultTracker` is made for the new view. `micro/` decides what to do with the results.

A group is one user message: everything between two responses. The parts of a split
response share one, as in `view/flatten.py`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

import msgspec

from everturn.decide.tools import DEFAULT_TOOLS, ToolKinds, build_tool_table
from everturn.history.blocks import Block
from everturn.history.edits import CacheDeleted, CacheDeletionsEnded, Cleared, Offloaded, ToldAsText
from everturn.history.messages import is_blank
from everturn.history.records import Record, is_sent
from everturn.measure.accounting import UNKNOWN_TOOL
from everturn.measure.meter import PLACEHOLDER_TOKENS
from everturn.measure.tokens import TokenCounter
from everturn.measure.tool_table import path_read


class TrackedResult(msgspec.Struct, frozen=True):
    """One tool result. `tokens` is the unpadded estimate of its block, `group` its user message."""

    call: str
    tool: str
    tokens: int
    record: str
    group: int
    path: str = ""
    # Characters of a result that is only text; 0 if it contains anything that a file could not replace.
    characters: int = 0
    is_error: bool = False
    # Whether its tool returns the content of files (`measure/tool_table.py`).
    may_read_files: bool = False

    @property
    def saving(self) -> int:
        """What clearing it would save; negative if the placeholder is longer."""
        return self.tokens - PLACEHOLDER_TOKENS

    @property
    def is_file_read(self) -> bool:
        """Whether it is the content of files: of one, by its path, or of several."""
        return bool(self.path) or self.may_read_files


class NewResult(NamedTuple):
    """A result of the newest user message, with its content."""

    result: TrackedResult
    block: Block


class _Called(NamedTuple):
    tool: str
    path: str


class ResultTracker:
    """Results by call id. `active` are those that may be cleared and are not."""

    def __init__(
        self,
        kinds: ToolKinds = DEFAULT_TOOLS,
        *,
        cleared: Iterable[str] = (),
        offloaded: Mapping[str, Offloaded] | None = None,
    ) -> None:
        """`cleared` and `offloaded` are the view's: edits of results that will be added later."""
        self._tools = build_tool_table(kinds)
        self._cleared = set(cleared)
        self._offloaded = dict(offloaded or {})
        self._files = {edit.path for edit in self._offloaded.values()}
        self._calls: dict[str, _Called] = {}
        self._arrived: list[TrackedResult] = []
        self._active: dict[str, TrackedResult] = {}
        # Active results that are in our messages, but not in the model's context.
        self._deleted: set[str] = set()
        self._known: set[str] = set()
        self._newest: list[NewResult] = []
        self._unseen: set[str] = set()
        # The first record of the response that follows each group.
        self._replies: list[str] = []
        self._message_id = ""
        self._is_answered = False
        # Tokens of the active results in the context.
        self.tokens = 0

    def add(self, record: Record, counts: TokenCounter) -> None:
        self._apply(record)
        if record.kind == "assistant":
            self._hear(record)
        if not is_sent(record):
            return
        self._is_answered = self._is_answered or record.kind != "assistant"
        for block, tokens in zip(record.blocks, counts.of(record).blocks, strict=False):
            if block.is_call:
                self._calls[block.call] = _Called(block.tool or UNKNOWN_TOOL, path_read(block, self._tools))
            elif block.is_result and block.call not in self._known:
                self._enter(record, block, tokens)

    def clear(self, calls: Iterable[str]) -> int:
        """These are placeholders from now on. Returns the tokens saved: none for results
        that were already gone.
        """
        fresh = [call for call in dict.fromkeys(calls) if call not in self._cleared]
        self._cleared.update(fresh)
        gone = [self._active.pop(call) for call in fresh if call in self._active]
        saved = self.saving(gone)
        self.tokens -= self._held(gone)
        self._deleted.difference_update(fresh)
        return saved

    def saving(self, results: Iterable[TrackedResult]) -> int:
        """What clearing these would save; results that the provider has deleted are not
        saved a second time.
        """
        return sum(result.saving for result in results if result.call not in self._deleted)

    def settle(self) -> None:
        """The newest user message has been sent as it is: nothing in it is new any more."""
        self._unseen.clear()

    @property
    def active(self) -> Iterator[TrackedResult]:
        return iter(self._active.values())

    @property
    def count(self) -> int:
        return len(self._active)

    @property
    def arrived(self) -> int:
        """How many clearable results were added, including those that were cleared since."""
        return len(self._arrived)

    @property
    def newest(self) -> Sequence[NewResult]:
        """Every result of the newest user message, whatever its tool."""
        return self._newest

    def arrived_since(self, count: int) -> list[TrackedResult]:
        """Those added after the first `count` that are still there."""
        return [result for result in self._arrived[count:] if result.call not in self._cleared]

    def oldest(self, count: int) -> tuple[TrackedResult, ...]:
        return tuple(islice(self._active.values(), max(0, count)))

    def all_but(self, keep: int) -> tuple[TrackedResult, ...]:
        """All but the newest `keep`, oldest first."""
        return self.oldest(len(self._active) - keep)

    def was_seen(self, call: str) -> bool:
        """Whether the model has seen it. Clearing an unseen result would lose it silently."""
        return call not in self._unseen

    def was_deleted(self, call: str) -> bool:
        """Whether the provider was told to delete it."""
        return call in self._deleted

    def was_offloaded(self, call: str) -> bool:
        return call in self._offloaded

    def is_offload_file(self, path: str) -> bool:
        """Whether a path is that of an offloaded result: offloading a read of it would be circular."""
        return path in self._files

    def shown_characters(self, result: TrackedResult) -> int:
        edit = self._offloaded.get(result.call)
        return len(edit.preview) if edit else result.characters

    def reply_after(self, result: TrackedResult) -> str:
        """The first record that the model wrote after it; "" if there is none yet."""
        return self._replies[result.group] if result.group < len(self._replies) else ""

    def tokens_of(self, calls: Iterable[str]) -> int:
        return sum(self._active[call].tokens for call in calls if call in self._active)

    def paths_of(self, calls: Iterable[str]) -> tuple[str, ...]:
        """The files that these calls read, each once."""
        paths = (self._calls[call].path for call in calls if call in self._calls)
        return tuple(dict.fromkeys(path for path in paths if path))

    def _apply(self, record: Record) -> None:
        match record.edit:
            case Cleared(calls=calls) | ToldAsText(calls=calls):
                # What is told as text is no result any more: nothing of it can be cleared.
                self.clear(calls)
            case Offloaded(call=call):
                self._offloaded[call] = record.edit
                self._files.add(record.edit.path)
                if call in self._active:
                    self._replace(_previewed(self._active[call], record.edit))
            case CacheDeleted(calls=calls):
                gone = [self._active[call] for call in calls if call in self._active]
                self.tokens -= self._held(gone)
                self._deleted.update(result.call for result in gone)
            case CacheDeletionsEnded():
                self.tokens += sum(self._active[call].tokens for call in self._deleted)
                self._deleted.clear()
            case _:
                pass

    def _held(self, results: Iterable[TrackedResult]) -> int:
        return sum(result.tokens for result in results if result.call not in self._deleted)

    def _replace(self, result: TrackedResult) -> None:
        self.tokens += self._held([result]) - self._held([self._active[result.call]])
        self._active[result.call] = result

    def _hear(self, record: Record) -> None:
        if record.api_error:
            # An error text is not a reply, but it proves that the message before it was sent.
            self.settle()
            return
        if not is_sent(record) or all(map(is_blank, record.blocks)):
            return
        is_same = bool(record.message_id) and record.message_id == self._message_id
        self._message_id = record.message_id
        if self._is_answered and not is_same:
            self._replies.append(record.uuid)
            self._is_answered = False
            self._newest = []
            self._unseen.clear()

    def _enter(self, record: Record, block: Block, tokens: int) -> None:
        called = self._calls.get(block.call, _Called(UNKNOWN_TOOL, ""))
        words = _words(block)
        group = len(self._replies)
        row = self._tools.find(called.tool)
        result = TrackedResult(
            block.call,
            called.tool,
            tokens,
            record.uuid,
            group,
            called.path,
            words.characters,
            words.is_error,
            may_read_files=row.does == "reads",
        )
        self._known.add(block.call)
        self._unseen.add(block.call)
        self._newest.append(NewResult(result, block))
        if row.is_reproducible:
            self._register(result)

    def _register(self, result: TrackedResult) -> None:
        if edit := self._offloaded.get(result.call):
            result = _previewed(result, edit)
        self._arrived.append(result)
        if result.call not in self._cleared:
            self._active[result.call] = result
            self.tokens += result.tokens


def _previewed(result: TrackedResult, edit: Offloaded) -> TrackedResult:
    """The same result at the size of its preview: its tokens in proportion to the characters."""
    tokens = result.tokens * len(edit.preview) // max(1, edit.characters)
    return msgspec.structs.replace(result, tokens=min(result.tokens, tokens))


class _Part(msgspec.Struct):
    type: str = ""
    text: str = ""


class _Content(msgspec.Struct):
    content: str | list[_Part] | None = None
    is_error: bool = False


class _Words(NamedTuple):
    characters: int
    is_error: bool


_read_content = msgspec.json.Decoder(_Content).decode


def _words(block: Block) -> _Words:
    try:
        read = _read_content(block.raw)
    except msgspec.DecodeError:
        return _Words(0, is_error=False)
    if not isinstance(read.content, list):
        return _Words(len(read.content or ""), read.is_error)
    if any(part.type != "text" for part in read.content):
        return _Words(0, read.is_error)
    # Texts are joined by one line break each, as in `history/blocks.py`.
    breaks = max(0, sum(bool(part.text) for part in read.content) - 1)
    return _Words(sum(len(part.text) for part in read.content) + breaks, read.is_error)
