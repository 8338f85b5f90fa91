"""What a short message answers: the question or the listed options of the statement before it.

"1+2" or "yes" says nothing by itself. A message that names items of a list gets these items, one that speaks
of the rest or of all of them gets the whole list, and a very short one gets the question.
"""

import re
from collections.abc import Sequence
from typing import Final

# Longer messages name what they are about.
_MAX_ANSWER: Final = 400
_SHORT: Final = 80
# Without a question before it, only a message as short as "run it" needs what was said before.
_VERY_SHORT: Final = 40
_LAST_PARAGRAPHS: Final = 4
_ITEM_LENGTH: Final = 240
_QUESTION_LENGTH: Final = 600
MAX_QUESTION: Final = 2_000
# Only the end of a long statement is searched: that is where it asks.
_SEARCHED: Final = 12_000
# Of a line, only its beginning is examined; the pattern may backtrack there.
_LOOKED_AT: Final = 120

_LABELLED: Final = re.compile(
    r"[\s|>#*_-]*(?:(?i:option|issue|step|item|task|critical|important|minor|phase|approach|choice)\s+)?"
    r"[*_`#(]{0,4}(\d{1,2}|[A-H])[*_`]{0,4}(?:\s*[.):|—–-]|\*\*)"
)
_NAMED: Final = re.compile(r"(?<![\w.-])(?:(\d{1,2})|([A-H]))(?![\w-]|\.\d)")
_SEVERAL: Final = re.compile(
    r"\b(?:all|both|rest|others?|every\w*|skip|except|list|either|any)\b", re.IGNORECASE
)
_POINTING: Final = re.compile(r"\b(?:them|these|those|each|that list)\b", re.IGNORECASE)
_ITEM_NAMED: Final = re.compile(
    r"(?:\b(?:item|issue|point|task|step|fix)s? #?|(?<!\w)#|\band )(\d{1,2})\b", re.IGNORECASE
)
_OFFERED: Final = re.compile(r"\b(?:want me to|shall I|should I|would you like me to)\b", re.IGNORECASE)
_HEADING: Final = re.compile(r"#{1,6} |\*\*[^*\n]{1,200}\*\*:?\s*$|[^\n|]{1,160}:\*{0,2}\s*$")
_CONSENT: Final = re.compile(
    r"\W*(?:y(?:es|eah|ep|up)?|ok(?:ay)?|sure|go|do it|please|looks? good|fine)\b", re.IGNORECASE
)

_ENQUIRY: Final = re.compile(r"\W*(?:what|why|how|which|explain|describe|show|tell)\b", re.IGNORECASE)


def find_question(words: str, statement: str) -> str:
    """The part of `statement` that is needed to understand `words`; "" if they need none of it."""
    if len(words) > _MAX_ANSWER or not statement:
        return ""
    is_short = len(words) <= _SHORT
    asked, asks = _asked(statement)
    lines = _chosen(words, statement, is_open=is_short and asks and not is_consent(words))
    if not lines and not (is_short if asks else len(words) <= _VERY_SHORT):
        return ""
    return "\n".join((*(line for line in lines if line not in asked), asked))[:MAX_QUESTION]


def items_not_mentioned(request: str, statements: Sequence[str]) -> list[str]:
    """The numbered items of a request that the statements since do not name by number."""
    listed = _listed(request)
    items = {label: line for label, line in listed[-1] if label.isdigit()} if listed else {}
    named = {number for said in statements for number in _ITEM_NAMED.findall(said[:_SEARCHED])}
    return [line for label, line in items.items() if label not in named] if named & items.keys() else []


def is_consent(words: str) -> bool:
    return _CONSENT.match(words) is not None


def is_choice(words: str, statement: str) -> bool:
    """Whether a short message chooses among the items that a statement lists: it decides what was offered."""
    if len(words) > _SHORT or words.endswith("?") or _ENQUIRY.match(words):
        return False
    listed = _listed(statement)
    return bool(listed) and not dict(listed[-1]).keys().isdisjoint(_labels(words))


def find_offer(statement: str) -> str:
    """The last paragraph of a statement if it offers to do something; "" if it does not."""
    asked, asks = _asked(statement)
    return asked if asks and _OFFERED.search(asked) else ""


def _chosen(words: str, statement: str, *, is_open: bool) -> list[str]:
    """The items that a message names; all lists, with their headings, if it speaks of several of them."""
    listed = _listed(statement)
    last = dict(listed[-1]) if listed else {}
    several = _SEVERAL.search(words) or (len(words) <= _SHORT and _POINTING.search(words))
    if several:
        return [line for items in listed for _, line in items]
    named = [last[label] for label in dict.fromkeys(_labels(words)) if label in last]
    return named or (list(last.values()) if is_open else [])


def _listed(statement: str) -> list[list[tuple[str, str]]]:
    """The lists of a statement: labels and lines, with the heading of each list under the label ""."""
    lists: list[list[tuple[str, str]]] = []
    heading = ""
    for line in statement[-_SEARCHED:].splitlines():
        label = _LABELLED.match(line[:_LOOKED_AT])
        if label is None:
            heading = line.strip() if _HEADING.match(line) else heading
        elif label[1] in ("1", "A") or not lists:
            lists.append([("", _clipped(heading, _ITEM_LENGTH))] if heading else [])
            lists[-1].append((label[1], _clipped(line.strip(), _ITEM_LENGTH)))
            heading = ""
        elif label[1] not in dict(lists[-1]):
            lists[-1].append((label[1], _clipped(line.strip(), _ITEM_LENGTH)))
    return [items for items in lists if len(dict(items).keys() - {""}) > 1]


def _labels(words: str) -> list[str]:
    return [number or letter for number, letter in _NAMED.findall(words)]


def _asked(statement: str) -> tuple[str, bool]:
    """The last paragraph that asks, if one of the last does, otherwise the last one; and whether it asks."""
    paragraphs = [text.strip() for text in statement[-_SEARCHED:].split("\n\n") if text.strip()]
    asking = [text for text in paragraphs[-_LAST_PARAGRAPHS:] if "?" in text]
    chosen = (asking or paragraphs)[-1:]
    return (_end_of(chosen[0], _QUESTION_LENGTH) if chosen else ""), bool(asking)


def _clipped(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit].rstrip()} …"


def _end_of(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"… {text[-limit:].lstrip()}"
