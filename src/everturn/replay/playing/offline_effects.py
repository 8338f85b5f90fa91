"""The effects of a replay: deterministic, without disk or network (RP-5).

Summaries come from the summarizer that needs no model, or from a `SummaryWriter`. Both are billed in the same
way: input by what is in the cache at that time, output by length. Files have the content that the session
last saw. Hooks do nothing.
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
from everturn.decide.extractive import SummarySettings, summarize
from everturn.decide.extractive.writing.wording import PREFACE
from everturn.history.blocks import text_block, text_of
from everturn.history.records import Record, Usage
from everturn.wire.anthropic import Request

# Line numbers as file tools print them.
_NUMBERED: Final = re.compile(r"^[ \t]*\d+(?:→|\t)", re.MULTILINE)

# Bills a summary call. Takes its request and the summary; returns the usage, or a failure if it is too long.
BillSummary = Callable[[Request, str], Usage | ModelFailure]
# A model that writes the summary instead. The usage it reports is not used: the replay bills the call.
SummaryWriter = Callable[[Request], ModelAnswer | ModelFailure]


class OfflineEffectHandler:
    """Performs the effects of one compaction or turn. `view` returns the records that are visible now."""

    def __init__(
        self,
        view: Callable[[], Sequence[Record]],
        bills: BillSummary,
        writer: SummaryWriter | None = None,
        *,
        summary_tokens: int = 0,
    ) -> None:
        self._view = view
        self._writer = writer
        self._bills = bills
        usual = SummarySettings()
        self._summary = usual.shortened_to(summary_tokens) if summary_tokens else usual
        self._has_answered = False

    def write_file(self, effect: WriteFile) -> str:
        return f"results/{effect.name}"

    def read_files(self, effect: ReadFiles) -> tuple[FileRead, ...]:
        known = last_seen(self._view())
        return tuple(_file(path, known, effect.max_characters) for path in effect.paths)

    def run_hooks(self, effect: RunHooks) -> HookOutcome:
        return HookOutcome()

    def emit(self, effect: Emit) -> None:
        """Events of a replay are not delivered."""

    def ask_model(self, effect: AskModel) -> ModelAnswer | ModelFailure:
        if self._writer is not None:
            return self._bill(effect.request, self._writer(effect.request))
        # Only one summary is billed. If the gate rejects it, the last strategy writes one without a gate. A
        # second call would be billed for the same text.
        if self._has_answered:
            return ModelFailure("refused", "the summary of this replay is already billed")
        # It stands for a model, so it must not say that no model wrote it: the gate refuses that.
        text = summarize(self._view(), settings=self._summary).text.removeprefix(PREFACE).lstrip()
        answer = self._bill(effect.request, ModelAnswer((text_block(text),), "end_turn", Usage()))
        self._has_answered = isinstance(answer, ModelAnswer)
        return answer

    def _bill(self, request: Request, answer: ModelAnswer | ModelFailure) -> ModelAnswer | ModelFailure:
        """A call that the provider refused is not billed."""
        if isinstance(answer, ModelFailure):
            return answer
        usage = self._bills(request, "\n".join(map(text_of, answer.blocks)))
        if isinstance(usage, ModelFailure):
            return usage
        return ModelAnswer(answer.blocks, answer.stop_reason, usage)


def last_seen(records: Iterable[Record]) -> Mapping[str, str]:
    """Files by path, with the content of the newest successful read."""
    return {
        path: _NUMBERED.sub("", each.answer)
        for path, each in index_calls(tuple(records)).file_reads()
        if each.answer and not each.failed
    }


def _file(path: str, known: Mapping[str, str], most: int) -> FileRead:
    text = known.get(path)
    if text is None:
        return FileRead(path, problem="its content is not in the recording")
    return FileRead(path, text[:most], is_cut=len(text) > most)
