"""The world of a replay: deterministic, without a model, a disk or a network (RP-5).

A summary is written by the summarizer that needs no model and billed as if a model had written it: its input
by what the cache holds at that moment, its output by its length. Files are what the session last saw of them.
Hooks say nothing.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from everturn.decide.compact.call_index import index_calls
from everturn.decide.effects import (
    AskModel,
    Emit,
    FileRead,
    HookOutcome,
    ModelAnswer,
    ModelFailure,
    ReadFiles,
    RunHooks,
    WriteFile,
)
from everturn.decide.extractive import summarize
from everturn.history.blocks import text_block
from everturn.history.records import Record, Usage
from everturn.wire.anthropic import Request

# Line numbers as file tools print them.
_NUMBERED: Final = re.compile(r"^\s*\d+(?:→|\t)", re.MULTILINE)
_READERS: Final = ("Read", "read_file", "view")

# Bills a summary call: its request and the summary's text in, the usage out; a Failure where it is too long.
BillSummary = Callable[[Request, str], Usage | ModelFailure]
# A model that writes the summary instead, where there is one.
SummaryWriter = Callable[[Request], str]


class OfflineEffectHandler:
    """Performs the effects of one compaction or turn. `view` gives the records that are visible now."""

    def __init__(
        self, view: Callable[[], Sequence[Record]], bills: BillSummary, writer: SummaryWriter | None = None
    ) -> None:
        self._view = view
        self._writer = writer
        self._bills = bills
        self._has_answered = False

    def write_file(self, effect: WriteFile) -> str:
        return f"results/{effect.name}"

    def read_files(self, effect: ReadFiles) -> tuple[FileRead, ...]:
        known = last_seen(self._view())
        return tuple(_file(path, known, effect.max_characters) for path in effect.paths)

    def run_hooks(self, effect: RunHooks) -> HookOutcome:
        return HookOutcome()

    def emit(self, effect: Emit) -> None:
        """Nobody listens."""

    def ask_model(self, effect: AskModel) -> ModelAnswer | ModelFailure:
        # One summary is paid for. Where its words look like what a model gets wrong, the summarizer is asked
        # without a gate on the last way; a second call would be charged for nothing.
        if self._has_answered:
            return ModelFailure("refused", "the summary of this replay was billed already")
        text = self._writer(effect.request) if self._writer else summarize(self._view()).text
        usage = self._bills(effect.request, text)
        if isinstance(usage, ModelFailure):
            return usage
        self._has_answered = True
        return ModelAnswer((text_block(text),), "end_turn", usage)


def last_seen(records: Iterable[Record]) -> Mapping[str, str]:
    """Files by path, as the newest successful read showed them."""
    reads = index_calls(tuple(records)).called(*_READERS)
    return {
        str(each.given.get("file_path") or each.given.get("path") or ""): _NUMBERED.sub("", each.answer)
        for each in reads
        if each.answer and not each.failed
    }


def _file(path: str, known: Mapping[str, str], most: int) -> FileRead:
    text = known.get(path)
    if text is None:
        return FileRead(path, problem="its content is not in the recording")
    return FileRead(path, text[:most], is_cut=len(text) > most)
