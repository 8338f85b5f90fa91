"""What fills the context: tokens by tool, by speaker, and by files read more than once (TOK-9 to 11).

Sums are unpadded. As in `meter.py`, which computes the size, the accounts are those of one view, and a hidden
result counts as its placeholder or preview. Text in a user record is a person's unless the harness added it:
meta records and summaries are `other`, and so are thinking, images, attachments and blocks of unknown kinds.
An image inside a tool result belongs to the result.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import msgspec

from everturn.history.blocks import THINKING, TOOL_RESULT, TOOL_USE, Block
from everturn.history.edits import Cleared, Edit, Offloaded, ThinkingDropped
from everturn.history.log import View
from everturn.history.records import Record, is_sent
from everturn.measure.meter import PLACEHOLDER_TOKENS, edits_before
from everturn.measure.tokens import TokenCounter
from everturn.measure.tool_table import DEFAULT_TOOL_TABLE, ToolTable, path_read

LOCAL_OUTPUT: Final = b"<local-command-stdout>"
UNKNOWN_TOOL: Final = "unknown"

# What a read tool answers if the file has not changed and an earlier read is still visible. Claude Code's
# wording; our own tools begin the same way (MC-18). Such an answer is short; a longer text only quotes it.
UNCHANGED_NOTE: Final = b"File unchanged since"
_MAX_NOTE_BYTES: Final = 1_000


class RepeatedRead(msgspec.Struct, frozen=True):
    """One file read `count` times for `total` tokens; all but one of the reads are redundant."""

    count: int
    total: int

    @property
    def wasted(self) -> int:
        return self.total // self.count * (self.count - 1)


class Shares(msgspec.Struct, frozen=True, kw_only=True):
    """Percent of the total, rounded; all zero for an empty view. They need not add up to 100."""

    human: int
    assistant: int
    local_output: int
    tool_requests: int
    tool_results: int
    duplicate_reads: int


class Metrics(msgspec.Struct, frozen=True, kw_only=True):
    """The totals of one view. `thinking`, `images` and `injected` are parts of `other`."""

    tool_requests: Mapping[str, int]
    tool_results: Mapping[str, int]
    human: int
    assistant: int
    local_output: int
    other: int
    thinking: int
    images: int
    injected: int
    # Number of attachments by type, not tokens; their tokens are in `other`.
    attachments: Mapping[str, int]
    duplicate_reads: Mapping[str, RepeatedRead]

    @property
    def total(self) -> int:
        spoken = self.human + self.assistant + self.local_output + self.other
        return spoken + sum(self.tool_requests.values()) + sum(self.tool_results.values())

    @property
    def wasted(self) -> int:
        return sum(read.wasted for read in self.duplicate_reads.values())

    @property
    def files_read_again(self) -> int:
        return len(self.duplicate_reads)

    @property
    def shares(self) -> Shares:
        return Shares(
            human=self._percent(self.human),
            assistant=self._percent(self.assistant),
            local_output=self._percent(self.local_output),
            tool_requests=self._percent(sum(self.tool_requests.values())),
            tool_results=self._percent(sum(self.tool_results.values())),
            duplicate_reads=self._percent(self.wasted),
        )

    def _percent(self, tokens: int) -> int:
        total = self.total
        return (200 * tokens + total) // (2 * total) if total else 0


class _Call(NamedTuple):
    tool: str
    path: str


_UNKNOWN_CALL: Final = _Call(UNKNOWN_TOOL, "")


class Accounts:
    """Updated one record at a time; `metrics` describes the view so far."""

    def __init__(
        self,
        counts: TokenCounter | None = None,
        *,
        placeholder: int = PLACEHOLDER_TOKENS,
        tools: ToolTable = DEFAULT_TOOL_TABLE,
    ) -> None:
        self._counts = TokenCounter() if counts is None else counts
        self._tools = tools
        self._placeholder = placeholder
        self._figures: Counter[str] = Counter()
        self._requests: Counter[str] = Counter()
        self._tool_results: Counter[str] = Counter()
        self._attachments: Counter[str] = Counter()
        # Tokens of each read that is still shown, by path and call; and their sum, by path.
        self._reads: dict[str, dict[str, int]] = {}
        self._read_tokens: Counter[str] = Counter()
        # Files read twice or more, kept up to date: metrics are requested on every turn.
        self._repeated: dict[str, RepeatedRead] = {}
        self._calls: dict[str, _Call] = {}
        self._results: dict[str, int] = {}
        self._cleared: set[str] = set()
        self._previews: dict[str, int] = {}
        # Thinking by the position of its record, oldest first.
        self._thinking: dict[int, int] = {}
        self._ordinals: dict[str, int] = {}

    def add(self, record: Record) -> None:
        self._ordinals[record.uuid] = len(self._ordinals)
        if record.kind == "attachment" and is_sent(record):
            self._attachments[record.subtype or "unknown"] += 1
        if record.blocks:
            for block, tokens in zip(record.blocks, self._counts.of(record).blocks, strict=False):
                self._enter(record, block, tokens)
        if record.edit is not None:
            self.apply(record.edit)

    def apply(self, edit: Edit) -> None:
        """Apply an edit that is not a record of the view; `add` does this for those that are."""
        match edit:
            case Cleared(calls=calls):
                self.clear(calls)
            case Offloaded(call=call, preview=preview):
                self._previews[call] = self._counts.estimator.text(preview)
                self._show(call)
            case ThinkingDropped(since=since, until=until):
                self._drop_thinking(since, until)
            case _:
                pass

    def clear(self, calls: Iterable[str]) -> None:
        """From now on these results are placeholders, and no longer count as reads of a file."""
        for call in calls:
            self._cleared.add(call)
            self._show(call)

    def metrics(self) -> Metrics:
        figures = self._figures
        return Metrics(
            tool_requests=dict(self._requests),
            tool_results=dict(self._tool_results),
            human=figures["human"],
            assistant=figures["assistant"],
            local_output=figures["local_output"],
            other=sum(figures[part] for part in ("thinking", "images", "injected", "rest")),
            thinking=figures["thinking"],
            images=figures["images"],
            injected=figures["injected"],
            attachments=dict(self._attachments),
            duplicate_reads=dict(self._repeated),
        )

    def _enter(self, record: Record, block: Block, tokens: int) -> None:
        kind = block.kind
        if kind == TOOL_USE:
            self._calls[block.call] = _Call(block.tool or UNKNOWN_TOOL, path_read(block, self._tools))
            self._requests[block.tool or UNKNOWN_TOOL] += tokens
        elif kind == TOOL_RESULT:
            if is_unchanged_note(block):
                self._calls[block.call] = self._call_of(block.call)._replace(path="")
            self._hold(block.call, tokens)
            self._show(block.call)
        else:
            figure = _figure(record, block)
            self._figures[figure] += tokens
            if figure == "thinking":
                at = self._ordinals[record.uuid]
                self._thinking[at] = self._thinking.get(at, 0) + tokens

    def _show(self, call: str) -> None:
        """A result as the model sees it now: whole, as a preview, or cleared."""
        if call not in self._results:
            return
        if call in self._cleared:
            self._hold(call, self._placeholder)
            self._read(self._call_of(call).path, call, None)
        elif call in self._previews:
            self._hold(call, self._previews[call])

    def _hold(self, call: str, tokens: int) -> None:
        made = self._call_of(call)
        self._tool_results[made.tool] += tokens - self._results.get(call, 0)
        self._results[call] = tokens
        self._read(made.path, call, tokens)

    def _read(self, path: str, call: str, tokens: int | None) -> None:
        """Record that a read of that many tokens is shown; None: it is no longer shown."""
        if not path:
            return
        reads = self._reads.setdefault(path, {})
        self._read_tokens[path] += (tokens or 0) - reads.pop(call, 0)
        if tokens is not None:
            reads[call] = tokens
        self._repeated.pop(path, None)
        if len(reads) > 1:
            self._repeated[path] = RepeatedRead(len(reads), self._read_tokens[path])

    def _call_of(self, call: str) -> _Call:
        return self._calls.get(call, _UNKNOWN_CALL)

    def _drop_thinking(self, since: str, until: str) -> None:
        here = len(self._ordinals)
        first, end = self._ordinals.get(since, here), self._ordinals.get(until, here)
        for at in [at for at in self._thinking if first <= at < end]:
            self._figures["thinking"] -= self._thinking.pop(at)


def accounts_of(
    view: View, counts: TokenCounter | None = None, tools: ToolTable = DEFAULT_TOOL_TABLE
) -> Accounts:
    """The accounts of a whole view."""
    accounts = Accounts(counts, tools=tools)
    for edit in edits_before(view):
        accounts.apply(edit)
    for record in view.records:
        accounts.add(record)
    return accounts


def _figure(record: Record, block: Block) -> str:
    kind = block.kind
    if kind in THINKING:
        return "thinking"
    if kind in ("image", "document"):
        return "images"
    if kind != "text":
        return "rest"
    if record.kind == "assistant":
        return "assistant"
    if LOCAL_OUTPUT in block.raw:
        return "local_output"
    return "injected" if record.meta or record.compact_summary else "human"


def is_unchanged_note(result: Block) -> bool:
    """Whether the answer to a read only says that the file has not changed, without its content."""
    return len(result.raw) <= _MAX_NOTE_BYTES and UNCHANGED_NOTE in result.raw
