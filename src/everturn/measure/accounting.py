"""What fills the context: tokens by tool, by speaker, and by files read more than once (TOK-9 to 11).

Sums are unpadded. A boundary starts over, a cleared result shrinks to its placeholder, as in `meter.py`,
which knows the size; this page knows the shares. Text in a user record is a human's unless the harness put
it there: meta records and summaries are `other`, and so are thinking, images, attachments and blocks of
kinds that are not known here. An image inside a tool result belongs to the result.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import msgspec

from everturn.history.blocks import Block
from everturn.history.edits import Cleared
from everturn.history.records import Record
from everturn.measure.meter import PLACEHOLDER_TOKENS
from everturn.measure.tokens import Counts, reaches_the_model

LOCAL_OUTPUT: Final = b"<local-command-stdout>"
UNKNOWN_TOOL: Final = "unknown"

# Tools that answer with the content of one file; the editors only when their command says "view".
READERS: Final = frozenset({"Read", "NotebookRead", "read", "read_file", "view", "view_file", "open_file"})
EDITORS_THAT_VIEW: Final = frozenset({"str_replace_based_edit_tool", "str_replace_editor"})


class RepeatedRead(msgspec.Struct, frozen=True):
    """One file read `count` times for `total` tokens; all but one of the reads are waste."""

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
    """The figures of one view. `thinking`, `images` and `injected` are parts of `other`."""

    tool_requests: Mapping[str, int]
    tool_results: Mapping[str, int]
    human: int
    assistant: int
    local_output: int
    other: int
    thinking: int
    images: int
    injected: int
    # How many of each type, not tokens; their tokens are in `other`.
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


class _Result(NamedTuple):
    call: _Call
    tokens: int


class Accounts:
    """Fed one record at a time; `metrics` is the state of the view so far."""

    def __init__(self, counts: Counts | None = None, *, placeholder: int = PLACEHOLDER_TOKENS) -> None:
        self._counts = Counts() if counts is None else counts
        self._placeholder = placeholder
        self._cleared: set[str] = set()
        self._calls: dict[str, _Call] = {}
        self._start_over()

    def _start_over(self) -> None:
        self._figures: Counter[str] = Counter()
        self._requests: Counter[str] = Counter()
        self._tool_results: Counter[str] = Counter()
        self._attachments: Counter[str] = Counter()
        self._read_count: Counter[str] = Counter()
        self._read_tokens: Counter[str] = Counter()
        self._results: dict[str, _Result] = {}

    def add(self, record: Record) -> None:
        if record.is_boundary:
            self._start_over()
        if record.kind == "attachment" and reaches_the_model(record):
            self._attachments[record.subtype or "unknown"] += 1
        for block, tokens in zip(record.blocks, self._counts.of(record).blocks, strict=False):
            self._enter(record, block, tokens)
        if isinstance(record.edit, Cleared):
            self.clear(record.edit.calls)

    def clear(self, calls: Iterable[str]) -> None:
        """These results hold a placeholder from now on, and no longer repeat a file."""
        for call in dict.fromkeys(calls):
            if call not in self._cleared:
                self._cleared.add(call)
                if call in self._results:
                    self._shrink(self._results[call])

    def metrics(self) -> Metrics:
        figures = self._figures
        repeated = {path: count for path, count in self._read_count.items() if count > 1}
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
            duplicate_reads={
                path: RepeatedRead(count, self._read_tokens[path]) for path, count in repeated.items()
            },
        )

    def _enter(self, record: Record, block: Block, tokens: int) -> None:
        if block.is_call:
            self._calls[block.call] = _Call(block.tool or UNKNOWN_TOOL, _path_read(block))
            self._requests[block.tool or UNKNOWN_TOOL] += tokens
        elif block.is_result:
            self._enter_result(block.call, tokens)
        else:
            self._figures[_figure(record, block)] += tokens

    def _enter_result(self, call_id: str, tokens: int) -> None:
        call = self._calls.get(call_id, _Call(UNKNOWN_TOOL, ""))
        result = self._results[call_id] = _Result(call, tokens)
        self._tool_results[call.tool] += tokens
        if call.path:
            self._read_count[call.path] += 1
            self._read_tokens[call.path] += tokens
        if call_id in self._cleared:
            self._shrink(result)

    def _shrink(self, result: _Result) -> None:
        call, tokens = result
        self._tool_results[call.tool] += self._placeholder - tokens
        if call.path:
            self._read_count[call.path] -= 1
            self._read_tokens[call.path] -= tokens


def _figure(record: Record, block: Block) -> str:
    if block.is_thinking:
        return "thinking"
    if block.kind in ("image", "document"):
        return "images"
    if block.kind != "text":
        return "rest"
    if record.kind == "assistant":
        return "assistant"
    if LOCAL_OUTPUT in block.raw:
        return "local_output"
    return "injected" if record.meta or record.compact_summary else "human"


class _Where(msgspec.Struct):
    file_path: str = ""
    path: str = ""
    notebook_path: str = ""
    command: str = ""


class _ReadCall(msgspec.Struct):
    input: _Where


_read_call = msgspec.json.Decoder(_ReadCall).decode


def _path_read(block: Block) -> str:
    """The file that a call reads; "" when it reads none, or says so in a way we do not know."""
    if block.tool not in READERS and block.tool not in EDITORS_THAT_VIEW:
        return ""
    try:
        where = _read_call(block.raw).input
    except msgspec.DecodeError:
        return ""
    if block.tool in EDITORS_THAT_VIEW and where.command != "view":
        return ""
    return where.file_path or where.path or where.notebook_path
