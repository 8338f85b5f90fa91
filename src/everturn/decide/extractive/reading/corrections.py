"""Messages that correct the model: they overrule what it did or said, so they are kept word for word.

Recognised by English words at the beginning of a sentence, or by the user having interrupted the model.
"""

import re
from typing import Final

from everturn.decide.extractive.reading.sentences import sentences

# A longer message is shown by the sentence that corrects.
MAX_CORRECTION: Final = 400
_OPENING: Final = re.compile(
    r"^\W*(?:no(?:pe)?[,.!;: ](?! ?(?:problem|worries|need))|don'?t\b|do not\b|stop\b|wait\b|undo\b|revert\b"
    r"|actually\b|wrong\b|not (?:quite|what|that|like|yet)\b|still not\b|hold on\b|let'?s not\b|are you sure"
    r"|uh oh\b|that(?:'s| is| was)(?: still)? (?:not|wrong|incorrect)\b|instead[, ])",
    re.IGNORECASE,
)
_INSIDE: Final = re.compile(
    r"\b(?:I (?:actually |really )?meant|what I (?:actually |really )?(?:meant|wanted)|not what I \w+"
    r"|you (?:misunderstood|missed|forgot|broke|shouldn'?t have|should have)"
    r"|(?:that'?s|is|isn'?t|was) not (?:right|correct|it\b)"
    r"|still (?:failing|broken|wrong|leaking|happening|doesn'?t|not)|isn'?t what"
    r"|let'?s not|I(?:'ve| have)?(?: just)? (?:undid|undone|reverted) your|you (?:messed|screwed|fucked)\b"
    r"|remove (?:this|that|it) again|where (?:do|did) you get)\b",
    re.IGNORECASE,
)
# Of a long message only the beginning is examined: what follows is usually pasted.
_SEARCHED: Final = 2_000
_SAME: Final = 0.6


def find_correction(words: str) -> str:
    """The correcting words: the whole message, or its sentence if the message is long; "" for none."""
    for sentence in sentences(words[:_SEARCHED]):
        if len(sentence) <= MAX_CORRECTION and (_OPENING.match(sentence) or _INSIDE.search(sentence)):
            return words if len(words) <= MAX_CORRECTION else sentence
    return ""


def is_resent(before: str, after: str) -> bool:
    """Whether a message that follows an interruption is the interrupted one, sent again with changes."""
    first, second = set(before.lower().split()), set(after.lower().split())
    return bool(first) and len(first & second) >= _SAME * len(first)
