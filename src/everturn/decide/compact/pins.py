"""Pins: what must be carried word for word across any number of compactions (CP-32).

Pinned are the caller's own words (`Pinned` edits), what an earlier compaction carried, and the standing
instructions and prohibitions in the user's messages. Only sentences of people are looked at: a file or a
tool result cannot pin anything. A sentence that is wrongly taken for an instruction costs a few tokens; one
that is missed is still in section 6 of the summary.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from everturn.decide.authorship import typed_words, without_wrapped
from everturn.decide.compact.call_index import attached
from everturn.decide.compact.settings import CompactSettings
from everturn.history.blocks import text_of
from everturn.history.edits import Pinned
from everturn.history.records import Record

CARRIED: Final = "compaction_pins"

# How people state a rule. Each is a beginning of a clause: "never push", "please always use bun",
# "from now on", "do not touch X". A question ("why don't you ...?") states none.
RULES: Final = re.compile(
    r"""(?:^|[.!;:,\n(]|\b(?:and|but|please|also|so)\s)[-*\d.\s"'`]{0,40}
        (?: never\b(?!\s+mind\b) | always\b | do\s+\**not\b | don['’]?t\b | must\s+not\b | mustn't\b
          | from\s+now\s+on\b | under\s+no\s+circumstances\b | no\s+matter\s+what\b
          | (?:you\s+)?(?:must|should|may|can)\s+(?:never|always|not|only)\b
          | (?:i\s+(?:want|need|prefer)\s+you\s+to\s+(?:never|always|not))\b
          | (?:keep\s+in\s+mind|remember)\s+(?:that|to)\b
          | make\s+sure\s+(?:to\s+)?(?:never|always|not|that\s+you)\b
          | (?:only\s+)?use\s+\S+(?:\s+\S+){0,5}?\s*(?:,?\s+(?:instead|not|never|rather)\b)
          | use\s+(?:only\s+)?[\w@./+-]+\s*(?:[.!\n]|$)
          | avoid\b | stop\s+\w+ing\b | leave\s+\S+\s+(?:alone|untouched|as\s+(?:it|they)\b)
        )""",
    re.IGNORECASE | re.VERBOSE,
)
# No rule without one of these. Only for ASCII: beyond it, letters have more than two cases.
_WORDS_OF_RULES: Final = (
    "never", "always", "not", "don", "must", "now", "circumstances", "matter", "only", "mind",
    "remember", "sure", "use", "avoid", "stop", "leave",
)  # fmt: skip
_SENTENCES: Final = re.compile(r"(?<=[.!?])\s+|\n+")
_CODE: Final = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)


class Pins(msgspec.Struct, frozen=True):
    """The caller's and, within the budget, found ones; found ones beyond it."""

    carried: tuple[str, ...] = ()
    unpinned: tuple[str, ...] = ()


def pins_of(
    pinned: Iterable[Pinned],
    summarized: Sequence[Record],
    settings: CompactSettings,
    estimate: Callable[[str], int],
) -> Pins:
    """What is carried through a compaction of these records.

    Texts that somebody pinned are always carried: `check_pin` refused those for which there is no space. Of
    those that were found, the newest come first: a budget that is full of the first day's rules has no space
    for today's. The order is that in which they were said.
    """
    own = _own(pinned)
    found = tuple(text for text in _found(summarized, settings) if text not in own)
    left = settings.pin_tokens - sum(map(estimate, own))
    fitting: list[str] = []
    for text in reversed(found):
        if (tokens := estimate(text)) <= left:
            left -= tokens
            fitting.append(text)
    return Pins(
        carried=(*own, *(text for text in found if text in fitting)),
        unpinned=tuple(text for text in found if text not in fitting),
    )


def check_pin(
    text: str, pinned: Iterable[Pinned], settings: CompactSettings, estimate: Callable[[str], int]
) -> str:
    """Why this text cannot be pinned beside the others; "" if it can."""
    if not text.strip():
        return "No text to pin; give the text that must be kept."
    own = _own(pinned)
    if text.strip() in own:
        return ""
    tokens, taken = estimate(text.strip()), sum(map(estimate, own))
    if taken + tokens <= settings.pin_tokens:
        return ""
    texts = "1 pinned text" if len(own) == 1 else f"{len(own)} pinned texts"
    return (
        f"This text has about {tokens:,} tokens, and {taken:,} of the {settings.pin_tokens:,} that are "
        f"carried through every compaction are taken by {texts}. Shorten it, or raise the key "
        "`compact.pin_tokens`."
    )


def _own(pinned: Iterable[Pinned]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(pin.text.strip() for pin in pinned if pin.text.strip()))


def _found(records: Sequence[Record], settings: CompactSettings) -> tuple[str, ...]:
    """Carried before, then said since; a rule that is said again counts as said then."""
    before = (pin for each in attached(records, CARRIED) for pin in each.parts[1:])
    spoken = (record for record in records if record.kind == "user")
    said = (rule for record in spoken for rule in standing_instructions(record, settings.longest_pin))
    latest: dict[str, None] = {}
    for text in (*before, *said):
        latest.pop(text, None)
        latest[text] = None
    return tuple(latest)


def standing_instructions(record: Record, longest: int) -> tuple[str, ...]:
    """The sentences of a person's message that state a rule, as they were written."""
    if record.kind != "user" or record.meta or record.compact_summary or record.display_only:
        return ()
    texts = [block for block in record.blocks if block.kind == "text"]
    if not texts:
        return ()
    words = "\n".join([typed_words(text_of(block)) for block in texts])
    if not words or not may_state_rule(words):
        return ()
    sentences = (part.strip() for part in _SENTENCES.split(_CODE.sub("\n", without_wrapped(words))))
    return tuple(each for each in sentences if len(each) <= longest and _is_rule(each))


def _is_rule(sentence: str) -> bool:
    if sentence.endswith("?") or not may_state_rule(sentence):
        return False
    return RULES.search(sentence) is not None


def may_state_rule(words: str) -> bool:
    """Whether the expression is worth a try: it tries every letter, and most words are none of its own."""
    lowered = words.lower()
    return not words.isascii() or any(each in lowered for each in _WORDS_OF_RULES)
