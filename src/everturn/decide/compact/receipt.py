"""The receipt: what was retained, what is recoverable and how, what was dropped (CP-34). Counts and names."""

from collections.abc import Sequence
from textwrap import shorten
from typing import Final, NamedTuple

from everturn.decide.compact.budget import TruncatedText
from everturn.decide.compact.call_index import parts_inside
from everturn.decide.compact.pins import CARRIED
from everturn.decide.compact.restored_attachments import RestoredThings
from everturn.decide.compact.settings import CompactSettings
from everturn.decide.compact.unanswered import UNANSWERED
from everturn.decide.compact.values import CompactionPlan, Receipt
from everturn.decide.compact.work import AGENTS, PLAN, TODOS
from everturn.decide.retention import ScoredSummary
from everturn.history.blocks import THINKING, TOOL_RESULT, Block
from everturn.history.edits import Offloaded
from everturn.history.records import Record
from everturn.measure.tool_table import DEFAULT_TOOL_TABLE

_PICTURES: Final = ("image", "document")
_SCORED: Final = frozenset({CARRIED, TODOS, PLAN, "plan_mode", AGENTS, UNANSWERED})
# Characters of a pin on the receipt.
_PIN_WIDTH: Final = 60


class _Gone(NamedTuple):
    """What no summary carries, and where large results went."""

    pictures: int
    thoughts: int
    moved: tuple[str, ...]


def receipt_of(
    plan: CompactionPlan,
    summary: str,
    back: RestoredThings,
    *,
    transcript: str,
    settings: CompactSettings,
    unread: int = 0,
    is_scored: bool = True,
) -> Receipt:
    """`unread` messages did not fit into the request for the summary. `is_scored`: it has a score."""
    gone = _gone(plan.summarized)
    return Receipt(
        scored=_scored(plan, summary, back, settings) if is_scored else None,
        retained=_retained(plan, back, settings),
        recoverable=_recoverable(plan, back, gone, transcript, settings),
        dropped=_dropped(plan, back, gone, settings, unread),
    )


def _scored(
    plan: CompactionPlan, summary: str, back: RestoredThings, settings: CompactSettings
) -> ScoredSummary:
    """What is scored: the summary with the restored words beside it. Restored files and skills do not count:
    the score is about what would otherwise be lost.
    """
    words = (part for each in back.payloads if each.type in _SCORED for part in each.content)
    tools = settings.add_tools(DEFAULT_TOOL_TABLE)
    return ScoredSummary(plan.summarized, "\n".join((summary, *words)), tools)


def _retained(plan: CompactionPlan, back: RestoredThings, settings: CompactSettings) -> tuple[str, ...]:
    restoring = plan.restoration
    every = (
        _count(plan.messages_kept, "message", "verbatim"),
        _count(len(plan.pins), "instruction of the user", "verbatim", plural="instructions of the user"),
        _last_message(restoring.unanswered),
        "the todo list" if restoring.todos else "",
        "the plan" if restoring.plan else "",
        _named("skills", back.skills, settings),
        _count(len(restoring.agents), "running agent"),
        _count(
            len(restoring.exchanges),
            "earlier call with its result",
            plural="earlier calls with their results",
        ),
        _named("files as they are now", back.files, settings),
    )
    return tuple(filter(None, every))


def _recoverable(
    plan: CompactionPlan, back: RestoredThings, gone: _Gone, transcript: str, settings: CompactSettings
) -> tuple[str, ...]:
    # Without a transcript nothing of it can be had again, and the receipt must not promise it (TR-8).
    where = f"in {transcript}" if transcript else "in this process only: no transcript is kept"
    lost = {path for path, _ in back.left_out}
    earlier = [path for path in plan.restoration.read if path not in lost and path not in back.files]
    every = (
        _count(plan.messages_summarized, "summarized message", where),
        _named("files read earlier, by reading them again", earlier, settings),
        _named("large results, in their files", gone.moved, settings),
    )
    return tuple(filter(None, every))


def _dropped(
    plan: CompactionPlan, back: RestoredThings, gone: _Gone, settings: CompactSettings, unread: int
) -> tuple[str, ...]:
    left_out = [f"{path} ({why})" for path, why in back.left_out]
    every = (
        _count(gone.pictures, "image or document", plural="images and documents"),
        _count(gone.thoughts, "thinking block"),
        _count(unread, "message", "too many for the summary call, which read an extract instead"),
        _cut_from(plan.restoration.unanswered),
        _named("files that could not be shown", left_out, settings),
        _pins("older instruction", "over the pin budget", plan.unpinned, settings),
    )
    return tuple(filter(None, every))


def _last_message(text: TruncatedText | None) -> str:
    if text is None:
        return ""
    return "head and tail of the last message" if text.is_cut else "the last message verbatim"


def _cut_from(text: TruncatedText | None) -> str:
    return f"{text.left_out:,} characters from the middle of the last message" if text and text.is_cut else ""


def _count(number: int, what: str, how: str = "", *, plural: str = "") -> str:
    if not number:
        return ""
    name = what if number == 1 else plural or f"{what}s"
    return f"{number} {name} {how}".rstrip()


def _pins(what: str, where: str, pins: Sequence[str], settings: CompactSettings) -> str:
    """How many, and how each begins."""
    begin = [f'"{shorten(pin, _PIN_WIDTH, placeholder=" ...")}"' for pin in pins]
    return _named(_count(len(pins), what, where), begin, settings)


def _named(what: str, names: Sequence[str], settings: CompactSettings) -> str:
    if not names:
        return ""
    more = len(names) - settings.names
    shown = ", ".join(names[: settings.names])
    return f"{what}: {shown} and {more} more" if more > 0 else f"{what}: {shown}"


def _gone(records: Sequence[Record]) -> _Gone:
    """Pictures stand alone or inside results."""
    pictures = thoughts = 0
    moved: list[str] = []
    for record in records:
        if isinstance(record.edit, Offloaded):
            moved.append(record.edit.path)
        for block in record.blocks:
            pictures += count_pictures(block)
            thoughts += block.kind in THINKING
    return _Gone(pictures, thoughts, tuple(moved))


def count_pictures(block: Block) -> int:
    """Images and documents, also those inside of a result: no text carries them."""
    if block.kind == TOOL_RESULT:
        return len(parts_inside(block, *_PICTURES))
    return int(block.kind in _PICTURES)
