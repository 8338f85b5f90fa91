"""How much of the important content survives a compaction, counted without a model as judge (BY-6).

What is important is defined by the log alone, once, whoever wrote the summary: sentences of the user, files
that were touched, identifiers that were worked with, first lines of failed results, open tasks. An item is
kept if its words are in the text; letter case, spacing and punctuation do not count. That is a lower bound
for summaries that rephrase; the loose shares, by words in any order, are an upper one. The reasons for
decisions are not measured: nothing in a log states them reliably. What a summary should contain is decided in
`extractive/`.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from everturn.decide.extractive.reading import failures
from everturn.decide.extractive.reading.facts import Facts
from everturn.decide.extractive.reading.sentences import identifiers, long_words, sentences
from everturn.decide.extractive.reading.walk import extract_facts
from everturn.history.blocks import text_of
from everturn.history.records import Record, is_sent
from everturn.measure.tokens import rough

_WORDS: Final = re.compile(r"[^\W_]+(?:_+[^\W_]+)*")
# Fewer words are an answer ("yes", "go on"); more than this many characters is pasted text.
_MIN_SENTENCE_WORDS: Final = 3
_MAX_SENTENCE_CHARACTERS: Final = 400
# The beginning of a long error line identifies it.
_ERROR_WORDS: Final = 12
# For the loose count: short words are everywhere, and three of four of the others make a paraphrase likely.
_TELLING_LENGTH: Final = 4
_NEARLY: Final = 0.75
# The maximum number of folders used to tell apart two files with the same name.
_DEEPEST: Final = 40
# A name that was mentioned once may not matter.
_NAMED_TWICE: Final = 2


class RetainedItems(msgspec.Struct, frozen=True):
    """How many of the items were kept; `lost` names the others."""

    kept: int = 0
    total: int = 0
    lost: tuple[str, ...] = ()
    # The lost items of which nearly all words are somewhere in the text, in any order.
    loosely: int = 0

    @property
    def share(self) -> float | None:
        """None if there was nothing to keep."""
        return self.kept / self.total if self.total else None

    @property
    def loose_share(self) -> float | None:
        """Includes what may have been rephrased; an upper bound, as the words may be there
        for other reasons.
        """
        return (self.kept + self.loosely) / self.total if self.total else None


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """The five shares of one compaction. `tokens` is the size of the summary, by the rough estimator."""

    user_instructions: RetainedItems
    paths: RetainedItems
    identifiers: RetainedItems
    errors: RetainedItems
    pending: RetainedItems
    tokens: int

    @property
    def parts(self) -> dict[str, RetainedItems]:
        return {
            "user_instructions": self.user_instructions,
            "paths": self.paths,
            "identifiers": self.identifiers,
            "errors": self.errors,
            "pending": self.pending,
        }

    @property
    def score(self) -> float:
        """The mean of the available shares; 1 if there was nothing to keep."""
        return _mean(part.share for part in self.parts.values())

    @property
    def loose_score(self) -> float:
        return _mean(part.loose_share for part in self.parts.values())

    @property
    def score_per_thousand_tokens(self) -> float:
        return self.score / max(1, self.tokens) * 1_000


def _mean(shares: Iterable[float | None]) -> float:
    known = [share for share in shares if share is not None]
    return sum(known) / len(known) if known else 1.0


def measure_retention(before: Sequence[Record], after_text: str) -> Retention:
    """`before` are the records that were replaced, `after_text` is what replaces them."""
    facts = extract_facts(before)
    text = _plain(after_text)
    return Retention(
        user_instructions=_kept(_instructions(facts), text),
        paths=_kept_paths(tuple(facts.files), after_text.replace("\\", "/")),
        identifiers=_kept(_names(facts), text),
        errors=_kept(_error_lines(before), text, most_words=_ERROR_WORDS),
        pending=_kept((task.text for task in facts.tasks if task.status != "completed"), text),
        tokens=rough(after_text),
    )


def _plain(text: str) -> str:
    """Words in lower case with one space around each, so that a match ends at the end of a word."""
    return f" {' '.join(_WORDS.findall(text.lower()))} "


def _kept(wanted: Iterable[str], text: str, *, most_words: int | None = None) -> RetainedItems:
    # Texts that are equal without punctuation are the same item.
    plain = {" ".join(_plain(each).split()[:most_words]): each for each in wanted}
    plain.pop("", None)
    lost = {words: each for words, each in plain.items() if f" {words} " not in text}
    spoken = frozenset(text.split())
    loosely = sum(_is_nearly_there(words.split(), spoken) for words in lost)
    return RetainedItems(len(plain) - len(lost), len(plain), tuple(lost.values()), loosely)


def _is_nearly_there(words: Sequence[str], spoken: frozenset[str]) -> bool:
    telling = [word for word in words if len(word) >= _TELLING_LENGTH]
    return len(telling) > 1 and sum(word in spoken for word in telling) >= _NEARLY * len(telling)


def _instructions(facts: Facts) -> Iterable[str]:
    for said in facts.all_messages:
        for sentence in sentences(said.text):
            if len(sentence) <= _MAX_SENTENCE_CHARACTERS and len(sentence.split()) >= _MIN_SENTENCE_WORDS:
                yield sentence


def _names(facts: Facts) -> list[str]:
    """Identifiers in the user's words, and those in edits that were mentioned more than once."""
    by_user = identifiers(word for said in facts.all_messages for word in long_words(said.text))
    edited = {word for deed in facts.deeds for word in long_words(deed.new_text)}
    spoken = (word for word, times in facts.words.items() if times >= _NAMED_TWICE and word in edited)
    return [*by_user, *identifiers(spoken)]


def _error_lines(records: Iterable[Record]) -> Iterable[str]:
    """First lines of results that are flagged as errors; a person's refusal does not count."""
    for record in records:
        if record.kind != "user" or not is_sent(record):
            continue
        for block in record.blocks:
            if block.is_result and failures.is_error(block):
                line = failures.first_line(text_of(block))
                if not failures.was_refused(line):
                    yield line


def _kept_paths(paths: Sequence[str], text: str) -> RetainedItems:
    """A file counts as named if the text contains the shortest end of its path that no
    other touched file has.
    """
    lost = tuple(path for path in paths if not _is_named(_telling_end(path, paths), text))
    return RetainedItems(len(paths) - len(lost), len(paths), lost)


def _telling_end(path: str, paths: Sequence[str]) -> str:
    parts = path.replace("\\", "/").strip("/").split("/")
    for count in range(1, min(len(parts), _DEEPEST) + 1):
        end = "/".join(parts[-count:])
        if sum(other.replace("\\", "/").endswith(("/" + end, end)) for other in paths) == 1:
            return end
    return "/".join(parts)


def _is_named(end: str, text: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(end)}(?![\w-])", text) is not None
