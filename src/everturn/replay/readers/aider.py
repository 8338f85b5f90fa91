"""Aider's chat history in Markdown: several chats per file, no tool calls.

`####` starts what the user typed, `>` what aider printed, and the rest is the model. Output between two
replies without user input (test output, added files) was sent to the model, so it becomes a user message. Its
exact text is not in the file, nor are the files of the chat.
"""

import re
from collections.abc import Iterator
from datetime import datetime
from itertools import groupby
from typing import Final, Literal

from everturn.history.records import Usage
from everturn.replay.readers.record_builder import RecordBuilder, ReplyDetails, usage_from_counts
from everturn.replay.readers.values import Reader, RecordedConversation, SourceFile

_STARTED: Final = re.compile(rb"^# aider chat started at (.+)$", re.MULTILINE)
_MODEL: Final = re.compile(r"^(?:Main model|Models?): (\S+)", re.MULTILINE)
_COUNTED: Final = re.compile(r"(?<![\d.,])([\d.,]+)(k?) prompt tokens, ([\d.,]+)(k?) completion tokens")
_SENT: Final = re.compile(
    r"Tokens: ([\d.,]+)(k?) sent(?:, ([\d.,]+)(k?) cache write)?(?:, ([\d.,]+)(k?) cache hit)?"
    r", ([\d.,]+)(k?) received"
)
_NOTES: Final = (
    "what aider printed between two replies is used as the user message; file contents are not recorded",
)

AiderPartKind = Literal["typed", "printed", "said"]


def _recognises(source: SourceFile) -> bool:
    return _STARTED.search(source.data) is not None


def _conversations(source: SourceFile) -> Iterator[RecordedConversation]:
    starts = [*_STARTED.finditer(source.data)]
    ends = [*(start.start() for start in starts[1:]), len(source.data)]
    for number, (start, end) in enumerate(zip(starts, ends, strict=True), start=1):
        text = source.data[start.end() : end].decode(errors="replace")
        chat = _Chat(start[1].decode(errors="replace").strip(), text)
        if chat.thread.records:
            yield RecordedConversation(
                (chat.thread,), str(number) if len(starts) > 1 else "", (*_NOTES, *chat.notes)
            )


class _Chat:
    def __init__(self, started: str, text: str) -> None:
        self._builder = RecordBuilder()
        self._started: str | None = started if _is_time(started) else None
        self._model = ""
        self._usage: Usage | None = None
        self._printed = ""
        self._is_told = False
        parts: list[tuple[AiderPartKind, str]] = [(kind, "".join(lines)) for kind, lines in _parts(text)]
        # Older versions print usage before a reply, newer ones after it.
        self._counts_follow = _counts_follow(parts)
        for at, (kind, words) in enumerate(parts):
            self._part(kind, words, _usage_in(parts[at + 1][1]) if at + 1 < len(parts) else None)
        self.thread, self.notes = self._builder.thread, self._builder.notes

    def _part(self, kind: AiderPartKind, words: str, next_usage: Usage | None) -> None:
        if kind == "typed":
            self._tell(words)
        elif kind == "printed":
            if (model := _MODEL.search(words)) is not None:
                self._model = model[1]
            self._usage = _usage_in(words) or self._usage
            self._printed += _without_counts(words)
        elif words.strip():
            if not self._is_told:
                self._tell(self._printed)
            usage = next_usage if self._counts_follow else self._usage
            said = ReplyDetails(model=self._model, usage=usage)
            self._builder.assistant(words.strip("\n"), said)
            self._usage, self._printed, self._is_told = None, "", False

    def _tell(self, words: str) -> None:
        self._builder.user(words, self._started)
        self._started, self._printed = None, ""
        self._is_told = self._is_told or bool(words.strip())


def _parts(text: str) -> Iterator[tuple[AiderPartKind, Iterator[str]]]:
    for kind, lines in groupby(text.splitlines(keepends=True), key=_kind):
        strip = {"typed": 5, "printed": 2, "said": 0}[kind]
        yield kind, (line[strip:] if line.strip() else line for line in lines)


def _kind(line: str) -> AiderPartKind:
    if line.startswith("#### "):
        return "typed"
    return "printed" if line.startswith(("> ", ">\n")) else "said"


def _counts_follow(parts: list[tuple[AiderPartKind, str]]) -> bool:
    spoken = False
    for kind, words in parts:
        spoken = spoken or (kind == "said" and bool(words.strip()))
        if kind == "printed" and _usage_in(words) is not None:
            return spoken
    return False


def _usage_in(words: str) -> Usage | None:
    if (counted := _COUNTED.search(words)) is not None:
        return usage_from_counts(
            prompt=_number(counted[1], counted[2]), output=_number(counted[3], counted[4])
        )
    if (sent := _SENT.search(words)) is not None:
        prompt, written, read, output = (_number(sent[at], sent[at + 1]) for at in (1, 3, 5, 7))
        return usage_from_counts(prompt=prompt, written=written, read=read, output=output)
    return None


def _number(digits: str | None, thousands: str | None) -> int:
    return round(float(digits.replace(",", "")) * (1_000 if thousands else 1)) if digits else 0


def _without_counts(words: str) -> str:
    lines = words.splitlines(keepends=True)
    return "".join(line for line in lines if not (_COUNTED.search(line) or _SENT.search(line)))


def _is_time(words: str) -> bool:
    try:
        datetime.fromisoformat(words)
    except ValueError:
        return False
    return True


AIDER: Final = Reader("aider", _recognises, _conversations)
