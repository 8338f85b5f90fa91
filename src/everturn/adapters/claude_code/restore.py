"""Builds the context to restore after Claude Code compacted a session: rules, tasks, files, last message.

It comes from the transcript, which is complete. Only what the summary lacks is restored; the wording is in
`view/fragments/session_state.py`.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from everturn.adapters.claude_code.quick_json import get_text
from everturn.decide.authorship import label_agent_pin
from everturn.decide.compact.pins import pins_of
from everturn.decide.compact.settings import DEFAULTS
from everturn.decide.extractive.reading.facts import FileWork
from everturn.decide.extractive.reading.walk import extract_facts
from everturn.decide.extractive.writing.quoting import one_line, shortened
from everturn.errors import InputError
from everturn.history.blocks import text_of
from everturn.history.edits import Pinned
from everturn.history.log import Log
from everturn.history.records import Record
from everturn.history.threads import split_threads
from everturn.measure.tokens import rough
from everturn.session.pin_file import PinFile, read_pin_file
from everturn.session.transcripts import open_transcript
from everturn.view.fragments.session_state import session_state

MAX_FILES: Final = 12
MAX_MESSAGE_CHARACTERS: Final = 1_500


class RestoredContext(NamedTuple):
    """The text for the model, "" if the summary has everything; and for the user, which pins are lost."""

    text: str
    problem: str


def build_restored_context(payload: object, marker: object) -> RestoredContext:
    """Raises InputError for a bad transcript."""
    path = get_text(payload, "transcript_path")
    if not path:
        raise InputError("The input has no transcript_path; nothing can be restored.")
    log = Log(split_threads(open_transcript(path).records).main.records)
    before, visible = _split_at_compaction(log, get_text(marker, "last_uuid"))
    known = _VisibleText(visible)
    kept = _read_pins(path)
    beside = (Pinned(label_agent_pin(words), "pinned by the agent") for words in kept.pins)
    pins = pins_of((*log.view.pins, *beside), before, DEFAULTS, rough)
    facts = extract_facts(before)
    last = facts.messages[-1].text if facts.messages else ""
    text = session_state(
        rules=[f'- "{one_line(rule)}"' for rule in reversed(pins.carried) if not known.says(rule)],
        tasks=[
            f"- [{task.status}] {one_line(task.text)}" for task in facts.tasks if task.status != "completed"
        ],
        files=_file_lines(facts.files.values()),
        last_message="" if known.says(last) else f'"{one_line(shortened(last, MAX_MESSAGE_CHARACTERS))}"',
        transcript=path,
    )
    return RestoredContext(text, kept.damage)


def _read_pins(path: str) -> PinFile:
    """Pins that cannot be read must not keep the rest from being restored."""
    try:
        return read_pin_file(path)
    except InputError as problem:
        return PinFile(damage=str(problem))


def _split_at_compaction(log: Log, last_before: str) -> tuple[Sequence[Record], Sequence[Record]]:
    """What was compacted, and what the model sees now.

    The transcript is written with a delay. If it still ends as it did before the compaction, all of it was
    compacted, and the summary is not known yet.
    """
    view = log.view
    newest = next((record.uuid for record in reversed(log.records) if record.uuid), "")
    is_late = bool(last_before) and newest == last_before
    if view.boundary is None or is_late or not log.views_before:
        return view.records, ()
    return log.views_before[-1].records, view.records


class _VisibleText:
    """What the model already sees, compared by letters and digits only: summaries change the rest."""

    def __init__(self, visible: Sequence[Record]) -> None:
        texts = (text_of(block) for record in visible for block in record.blocks)
        self._letters = _letters("\n".join(texts))

    def says(self, words: str) -> bool:
        return _letters(words) in self._letters


def _letters(words: str) -> str:
    return "".join(letter for letter in words.casefold() if letter.isalnum())


def _file_lines(files: Iterable[FileWork]) -> list[str]:
    latest = list(files)[: -MAX_FILES - 1 : -1]
    return [f"- {one_line(file.path)} ({_work(file)})" for file in latest]


def _work(file: FileWork) -> str:
    counts = (("read", file.read), ("edited", file.edited), ("written", file.wrote))
    return ", ".join(f"{verb} {count}x" if count > 1 else verb for verb, count in counts if count) or "named"
