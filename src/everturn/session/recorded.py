"""Open and measure a recorded session: its model, its window, its size, and the thresholds it exceeds.

A session file does not name the context window. It is inferred from the strongest evidence available, in this
order: the caller's value, "[1m]" in the model's name, a reported context or an automatic compaction that only
one window size explains, the table of models. The result says which evidence was used.
"""

import os
from collections.abc import Iterable, Sequence
from textwrap import shorten
from typing import Final, Literal

import msgspec

from everturn.decide.options import Options
from everturn.errors import InputError, UsageError
from everturn.history.edits import Cleared, Compacted
from everturn.history.log import Log, View
from everturn.history.messages import Message
from everturn.history.records import Record, reported_usage
from everturn.history.threads import Thread, Threads, split_threads
from everturn.measure.calibration import Calibration, Calibrator
from everturn.measure.context_size import measure_context
from everturn.measure.meter import ContextSize, make_meter
from everturn.measure.model import Model
from everturn.measure.model_table import find_model, model_or_default
from everturn.measure.overhead import estimate_overhead, is_conversation_start
from everturn.measure.thresholds import (
    ContextThresholds,
    ThresholdLevels,
    check_thresholds,
    compute_thresholds,
)
from everturn.measure.tokens import TokenCounter
from everturn.session.state_file import SessionState, decode_state
from everturn.session.transcripts import Progress, open_transcript, read_state_beside
from everturn.view.flatten import flatten
from everturn.wire.claude_code_reader import Transcript
from everturn.wire.queued_messages import find_unrecorded

WindowBasis = Literal["given", "name", "context", "compaction", "model", "guess"]

STANDARD_WINDOW: Final = 200_000
LONG_WINDOW: Final = 1_000_000
LONG_SUFFIX: Final = "[1m]"
# Of a message that was typed while the model worked, in a remark.
MAX_QUEUED_CHARACTERS: Final = 80


class ContextWindow(msgspec.Struct, frozen=True):
    """How many tokens the context may hold, and how that was inferred."""

    tokens: int
    basis: WindowBasis
    why: str


class RecordedSession(msgspec.Struct, frozen=True, kw_only=True):
    """One conversation of a session file: the main one, or that of a sub-agent."""

    source: str
    transcript: Transcript
    threads: Threads
    thread: Thread
    view: View
    views_before: tuple[View, ...]
    # As the newest reply names it; "" if the session has no reply.
    model_id: str
    # Its row in the table, or the nearest row; then `guess` says so. `guess` is empty for a known model.
    model: Model
    guess: str
    window: ContextWindow
    calibration: Calibration
    # Tokens of system prompt and tools; None if the file does not show them (`overhead.py`).
    fixed: int | None
    size: ContextSize
    limits: ContextThresholds
    levels: ThresholdLevels
    # Caches the count of each record for later calls.
    counts: TokenCounter
    remarks: tuple[str, ...] = ()
    # What the session has kept beside its records: the latest decisions by price, and the cost of its tools.
    kept: SessionState = SessionState()

    @property
    def messages(self) -> tuple[Message, ...]:
        """What the next request would carry."""
        return flatten(self.view).messages


def open_session(
    path: str | os.PathLike[str],
    *,
    agent: str = "",
    window: int | None = None,
    progress: Progress | None = None,
    options: Options | None = None,
) -> RecordedSession:
    """Open a Claude Code session file, or standard input for "-", and measure it. Thresholds, window and
    tools are those of the options."""
    transcript = open_transcript(path, progress)
    found = measure_transcript(
        transcript, source=os.fspath(path), agent=agent, window=window, options=options
    )
    return msgspec.structs.replace(found, kept=decode_state(read_state_beside(path)))


def measure_transcript(
    transcript: Transcript,
    *,
    source: str = "",
    agent: str = "",
    window: int | None = None,
    options: Options | None = None,
) -> RecordedSession:
    """Measure one conversation of a transcript. `agent` is a sub-agent's id or a prefix of one."""
    options = options or Options()
    found = split_threads(transcript.records)
    thread, remarks = _chosen(found, agent)
    log = Log(thread.records)
    counts = TokenCounter()
    model_id = _model_id(thread.records)
    model, guess = _model(model_id)
    given = options.window if window is None else window
    held = infer_window(thread.records, model_id, model, guess, given)
    calibration = calibrate(thread.records, counts)
    fixed = (
        estimate_overhead(thread.records, counts, calibration, model_id)
        if is_conversation_start(thread.records)
        else None
    )
    meter = make_meter(log.view, counts)
    size = measure_context(
        meter, overhead=fixed, calibration=calibration if options.tokens.calibrate else None
    )
    settings = options.effective_thresholds
    limits = compute_thresholds(held.tokens, model.max_output, settings)
    return RecordedSession(
        source=source,
        transcript=transcript,
        threads=found,
        thread=Thread(thread.agent, thread.records, thread.abandoned, (*thread.notes, *log.notes)),
        view=log.view,
        views_before=log.views_before,
        model_id=model_id,
        model=model,
        guess=guess,
        window=held,
        calibration=calibration,
        fixed=fixed,
        size=size,
        limits=limits,
        levels=check_thresholds(size.tokens, limits, settings),
        counts=counts,
        remarks=(*remarks, *_about_the_start(thread), *_about_the_queue(transcript)),
    )


def cleared_before(view: View) -> set[str]:
    """Results cleared by edits that are no longer in the view themselves."""
    edits = (record.edit for record in view.records)
    return set(view.cleared) - {call for edit in edits if isinstance(edit, Cleared) for call in edit.calls}


def infer_window(
    records: Iterable[Record], model_id: str, model: Model, guess: str, given: int | None
) -> ContextWindow:
    if given is not None:
        if given <= 0:
            raise UsageError(f"A window must hold at least one token; {given:,} was given.")
        return ContextWindow(given, "given", "given by you")
    if LONG_SUFFIX in model_id:
        return ContextWindow(LONG_WINDOW, "name", f"the model is named {model_id}")
    records = tuple(records)
    peak = max((usage.context for record in records if (usage := reported_usage(record))), default=0)
    known = _assumed(model_id, model, guess)
    if peak > known.tokens:
        larger = LONG_WINDOW if peak > STANDARD_WINDOW else STANDARD_WINDOW
        return ContextWindow(max(larger, peak), "context", f"a context of {peak:,} tokens was reported")
    compacted = [edit.tokens_before for record in records if (edit := _automatic(record))]
    if known.tokens > STANDARD_WINDOW >= peak and any(0 < before <= STANDARD_WINDOW for before in compacted):
        at = max(compacted)
        return ContextWindow(
            STANDARD_WINDOW, "compaction", f"it was compacted automatically at {at:,} tokens"
        )
    return known


def _assumed(model_id: str, model: Model, guess: str) -> ContextWindow:
    if not model_id:
        return ContextWindow(STANDARD_WINDOW, "guess", "no reply in this session names a model")
    if not guess:
        return ContextWindow(model.window, "model", f"the window of {model.display_name}")
    if "claude" in model_id:
        return ContextWindow(model.window, "guess", guess)
    return ContextWindow(STANDARD_WINDOW, "guess", f"{model_id!r} is not in the table of models")


def _automatic(record: Record) -> Compacted | None:
    edit = record.edit
    return edit if isinstance(edit, Compacted) and edit.trigger == "auto" else None


def _chosen(found: Threads, agent: str) -> tuple[Thread, tuple[str, ...]]:
    if agent:
        return _named(found, agent), ()
    if found.main.records or not found.sidechains:
        return found.main, ()
    longest = max(found.sidechains, key=lambda side: len(side.records))
    others = len(found.sidechains) - 1
    remark = f"the file holds only sub-agents; showing the longest, {longest.agent}, of {others + 1}"
    return longest, (remark,)


def _about_the_start(thread: Thread) -> tuple[str, ...]:
    if not thread.records or is_conversation_start(thread.records) or thread.records[0].is_boundary:
        return ()
    return ("the file begins in the middle of a conversation; earlier messages are missing",)


def _about_the_queue(transcript: Transcript) -> tuple[str, ...]:
    """The user's words that are in the file and in no message of it."""
    left = find_unrecorded(transcript.lines, transcript.records)
    if not left:
        return ()
    words = shorten(" ".join(left[-1].text.split()), MAX_QUEUED_CHARACTERS)
    return (
        f"typed while the model worked, and in no message of the file: {len(left)}; the last is {words!r}",
    )


def _named(found: Threads, agent: str) -> Thread:
    every = (found.main, *found.sidechains) if found.main.agent else found.sidechains
    exact = [side for side in every if side.agent == agent]
    near = exact or [side for side in every if side.agent.startswith(agent)]
    if len(near) == 1:
        return near[0]
    if near:
        raise InputError(f"{len(near)} sub-agents have ids that begin with {agent!r}: {_names(near)}.")
    if not every:
        raise InputError(f"No sub-agent {agent!r} found: this file holds only the main conversation.")
    raise InputError(f"No sub-agent {agent!r} found in this file; it has {_names(every)}.")


def _names(sides: Iterable[Thread]) -> str:
    names = [side.agent for side in sides]
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _model_id(records: Iterable[Record]) -> str:
    replies = (record.reply for record in records if reported_usage(record) and record.reply)
    named = [reply.model for reply in replies if reply.model]
    return named[-1] if named else ""


def find_recorded_model(model_id: str) -> Model | None:
    """The row of a model by the name that a reply or an agent gives it."""
    return find_model(model_id.replace(LONG_SUFFIX, ""))


def _model(model_id: str) -> tuple[Model, str]:
    if (model := find_recorded_model(model_id)) is not None:
        return model, ""
    guess = model_or_default(model_id.replace(LONG_SUFFIX, ""))
    return guess.model, guess.guessed if model_id else "no reply in this session names a model"


def calibrate(records: Iterable[Record], counts: TokenCounter) -> Calibration:
    calibrator = Calibrator(counts)
    for record in records:
        calibrator.add(record)
    return calibrator.calibration()


class _Line(msgspec.Struct):
    cwd: str = ""


def recorded_folder(records: Sequence[Record]) -> str:
    """The working folder named in the newest record that names one; "" if it no longer exists."""
    for record in reversed(records):
        try:
            found = msgspec.json.decode(record.raw, type=_Line).cwd if b'"cwd"' in record.raw else ""
        except msgspec.MsgspecError:
            continue
        if found:
            return found if os.path.isdir(found) else ""
    return ""
