"""What a model answered when it was asked for a summary: its text, or why it is not one (CP-8).

An error can never become a summary: whatever is wrong leaves `text` empty and names the problem. Whether a
text is a good summary is checked in `gate.py`.
"""

import re
from typing import Final

import msgspec

from everturn.decide.compact.settings import DEFAULTS, CompactSettings
from everturn.decide.effects import ModelAnswer
from everturn.history.blocks import text_of
from everturn.wire.overflow import parse_overflow

# Stop reasons of a complete answer. With any other it was cut off, by a limit or in transit.
_WHOLE: Final = frozenset({"end_turn", "stop_sequence", "tool_use"})

_ERROR: Final = re.compile(
    r"""\A\s*(?: (?:API\s+)?error\b\s*[:(\d] | \{\s*"(?:type"\s*:\s*"error"|error"\s*:)
      | (?:internal\s+server|overloaded|rate[\s_]limit|authentication|invalid[\s_]request)[\w\s]*error
      | (?:request\s+timed\s+out|connection\s+error|credit\s+balance\s+is|prompt\s+is\s+too\s+long)
      | Traceback\s+\(most\s+recent | no\s+response\s+requested )""",
    re.IGNORECASE | re.VERBOSE,
)
_REFUSAL: Final = re.compile(
    r"\A\s*(?:I(?:'m|\s+am)\s+(?:sorry|unable)|I\s+(?:can(?:no|')t|won't|will\s+not)\s|sorry,|as\s+an\s+ai\b)"
    r"|violates?\s+our\s+usage\s+polic",
    re.IGNORECASE,
)
_DRAFT, _DRAFT_ENDS, _SUMMARY, _SUMMARY_ENDS = "<analysis>", "</analysis>", "<summary>", "</summary>"
_TAGS: Final = re.compile(r"<(/?)summary>")
# Not the indentation of the line behind them: it tells a quoted line from an entry.
_EMPTY: Final = re.compile(r"^[^\S\n]+$", re.MULTILINE)
_BLANK: Final = re.compile(r"\n{3,}")
_HEADING: Final = "Summary:\n"


class SummaryCheck(msgspec.Struct, frozen=True):
    """The summary in an answer, formatted, or what is wrong with it; never both."""

    text: str = ""
    problem: str = ""


def check_summary(answer: ModelAnswer, settings: CompactSettings = DEFAULTS) -> SummaryCheck:
    text = "\n".join(filter(None, (text_of(each) for each in answer.blocks if each.kind == "text"))).strip()
    calls = [each.tool for each in answer.blocks if each.is_call]
    problem = (
        _ended_badly(answer.stop_reason)
        or (f"it called {', '.join(calls)} and said nothing" if calls and not text else "")
        or text_problem(text, settings)
    )
    return SummaryCheck(problem=problem) if problem else SummaryCheck(formatted(text))


def _ended_badly(stop_reason: str) -> str:
    if stop_reason == "refusal":
        return "the model refused"
    if stop_reason == "max_tokens":
        return "it was cut off at its output limit"
    return (
        "" if stop_reason in _WHOLE else f"it did not end by itself (stop reason {stop_reason or 'missing'})"
    )


def text_problem(text: str, settings: CompactSettings = DEFAULTS) -> str:
    """Why a text is not a summary at all: nothing in it, an error, a refusal."""
    told = formatted(text).removeprefix(_HEADING)
    if not told:
        return "it is empty"
    is_brief = len(told.split()) < settings.brief_words
    if _ERROR.search(told) or (is_brief and parse_overflow(told) is not None):
        return "it is an error message"
    return "the model refused" if is_brief and _REFUSAL.search(told) else ""


def formatted(text: str) -> str:
    """The summary alone: the draft is gone, its tags are a heading, blank lines stand one at a time."""
    found = _without_drafts(text)
    start, stop = found.find(_SUMMARY), found.rfind(_SUMMARY_ENDS)
    if start >= 0:
        inner = found[start + len(_SUMMARY) : stop if stop > start else None]
        told = _TAGS.sub("", inner).strip()
        found = _HEADING + told if told else ""
    return _BLANK.sub("\n\n", _EMPTY.sub("", found)).strip()


def _without_drafts(text: str) -> str:
    """Also without one that was never closed, where a summary follows it. No pattern: one would look for the
    end of every beginning, which takes minutes where somebody sends nothing but beginnings."""
    kept, at = "", 0
    while (start := text.find(_DRAFT, at)) >= 0 and (end := text.find(_DRAFT_ENDS, start)) >= 0:
        kept += text[at:start]
        at = end + len(_DRAFT_ENDS)
    kept += text[at:]
    opened = kept.find(_DRAFT)
    summary = kept.find(_SUMMARY, opened) if opened >= 0 else -1
    return kept[summary:] if summary >= 0 else kept
