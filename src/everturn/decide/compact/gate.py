"""Which summaries are accepted (CP-31): the last check before a text may replace a conversation.

"" means accepted; anything else is the reason, worded so that the model can be asked to repair it. Pins are
carried beside the summary (`build_records.py`), so a summary cannot lose those. It can lose pins beyond their
budget, and must quote these word for word.
"""

import re
from collections.abc import Callable
from typing import Final

from everturn.decide.compact.settings import DEFAULTS, CompactSettings
from everturn.decide.compact.summary_response import text_problem
from everturn.decide.compact.values import CompactionPlan
from everturn.decide.extractive.writing.wording import OURS
from everturn.measure.tokens import pad_estimate

_CALL: Final = re.compile(
    r"""<(?:\w+:)?(?:invoke|function_calls?|tool_use|tool_call|parameter)\b | "type"\s*:\s*"tool_use"
      | \A\s*\{\s*"(?:name|tool|function)"\s*: | \[Tool:\s""",
    re.IGNORECASE | re.VERBOSE,
)
_QUOTE: Final = re.compile(r"^[ \t]*>.*$|```.*?```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_HEADING: Final = re.compile(
    r"^[ \t]*(?:#+\s.*|\*\*[^*\n]*\*\*:?|\d+[.)]\s[^:\n]{0,60}:?|[A-Z][^.:\n]{0,60}:)[ \t]*$", re.MULTILINE
)
# A numbered heading with its text on the same line: only the heading goes.
_LEAD: Final = re.compile(r"^[ \t]*(?:[-*][ \t]+|\d+[.)][ \t]+[^:\n]{0,60}:|\*\*[^*\n]*\*\*:?)", re.MULTILINE)
_PLACEHOLDER: Final = re.compile(
    r"\b(?:none|n/?a|nothing|not applicable|tbd|todo|to be determined|unknown|empty|no \w+ (?:yet|so far))\b"
    # Bounded: of brackets that are never closed, each would be followed to the end of its line.
    r"|\[[^\]\n]{0,200}\]|\.{3}|…",
    re.IGNORECASE,
)


def check_gate(
    text: str,
    plan: CompactionPlan,
    *,
    estimate: Callable[[str], int],
    settings: CompactSettings = DEFAULTS,
) -> str:
    """Why this summary may not replace what the plan summarizes; "" where it may."""
    if problem := text_problem(text, settings):
        return problem
    if problem := false_origin(text):
        return problem
    if _CALL.search(_QUOTE.sub("", text)):
        return "it holds the syntax of a tool call"
    if _words_beside_headings(text) < settings.least_words:
        return "it is a skeleton: headings with nothing under them"
    if (tokens := pad_estimate(estimate(text))) >= plan.tokens_summarized:
        return f"it is not smaller ({tokens:,} tokens) than what it replaces ({plan.tokens_summarized:,})"
    return ""


def false_origin(text: str) -> str:
    """Whether a model's summary begins as ours do: the next summary would take its quotes for the user's."""
    is_false = text.lstrip().startswith(OURS)
    return "it begins as if it had been made without a model; leave that line out" if is_false else ""


def _words_beside_headings(text: str) -> int:
    body = _LEAD.sub("", _HEADING.sub("", text))
    return len(re.findall(r"\w{2,}", _PLACEHOLDER.sub("", body)))
