"""Whether a text still says something: in the same words, or in nearly the same words in one passage.

Letter case, spacing, punctuation and the ends of long words do not count. A summary that rephrases keeps most
of the telling words of a statement close together; the same words scattered over a long text mean nothing.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Final

import msgspec

_WORDS: Final = re.compile(r"[^\W_]+(?:_+[^\W_]+)*")
# Words per passage; passages overlap by half.
_PASSAGE: Final = 60
_TELLING_LENGTH: Final = 4
# Longer words are compared by their beginning: summarise, summarising, summarised.
_STEM: Final = 6
# Of a long statement only so many telling words are looked for.
_MAX_TELLING: Final = 24
_COMMON: Final = frozenset(
    {
        "about", "also", "been", "before", "both", "come", "could", "does", "done", "down", "each",
        "even", "every", "first", "from", "have", "here", "into", "just", "know", "like", "look", "made",
        "make", "more", "most", "much", "need", "next", "only", "other", "over", "please", "same",
        "should", "some", "still", "such", "than", "that", "their", "them", "then", "there", "these",
        "they", "this", "those", "through", "very", "want", "were", "what", "when", "where", "which",
        "while", "will", "with", "without", "would", "your",
    }
)  # fmt: skip


class Item(msgspec.Struct, frozen=True):
    """Something that should be kept. `least` is the share of its telling words that one passage must have;
    `exact` items have to be there word for word. `any_of` are words that suffice, such as a commit's hash.
    """

    text: str
    weight: float = 1.0
    least: float = 0.6
    exact: bool = False
    any_of: tuple[str, ...] = ()


class RetainedItems(msgspec.Struct, frozen=True):
    """How many of the items were kept word for word, how many of the others in nearly the same words
    (`loosely`), and those that were lost. `weighed` is the share of both by weight.
    """

    kept: int = 0
    total: int = 0
    lost: tuple[str, ...] = ()
    loosely: int = 0
    weighed: float = 1.0

    @property
    def share(self) -> float | None:
        """Word for word; None if there was nothing to keep."""
        return self.kept / self.total if self.total else None

    @property
    def loose_share(self) -> float | None:
        """Includes what was rephrased."""
        return (self.kept + self.loosely) / self.total if self.total else None


class SummaryText:
    """A text, prepared once for many searches. Passages are made if something is not there verbatim."""

    def __init__(self, text: str) -> None:
        self.paths = text.replace("\\", "/")
        self._words = _WORDS.findall(text.lower())
        self._plain = f" {' '.join(self._words)} "

    @cached_property
    def _places(self) -> Mapping[str, Sequence[int]]:
        """The half passages in which a word occurs."""
        step = _PASSAGE // 2
        found: dict[str, list[int]] = {}
        for half, start in enumerate(range(0, len(self._words), step)):
            for stem in {_stem(word) for word in self._words[start : start + step]}:
                found.setdefault(stem, []).append(half)
        return found

    def has(self, words: str) -> bool:
        return f" {words} " in self._plain

    def nearness(self, telling: Sequence[str]) -> float:
        """The largest share of these words that two neighbouring half passages have."""
        if not telling:
            return 0.0
        found: Counter[int] = Counter()
        for word in telling:
            halves = self._places.get(word, ())
            # A half belongs to the passage that it begins and to the one that it ends.
            found.update({*halves, *(half - 1 for half in halves)})
        return max(found.values(), default=0) / len(telling)

    def keeps(self, item: Item) -> bool:
        """Whether an item that is not there word for word is there in other words."""
        if any(self.has(plain(word)) for word in item.any_of if word):
            return True
        telling = telling_words(item.text)
        return not item.exact and len(telling) > 1 and self.nearness(telling) >= item.least


def plain(text: str) -> str:
    return " ".join(_WORDS.findall(text.lower()))


def telling_words(text: str) -> list[str]:
    """The words that carry the meaning, in order, each once."""
    words = _WORDS.findall(text.lower())
    telling = (word for word in words if len(word) >= _TELLING_LENGTH or any(map(str.isdigit, word)))
    return list(dict.fromkeys(_stem(word) for word in telling if word not in _COMMON))[:_MAX_TELLING]


def _stem(word: str) -> str:
    return word[:_STEM] if len(word) > _STEM and word.isalpha() else word


def match(items: Iterable[Item], text: SummaryText, *, most_words: int | None = None) -> RetainedItems:
    """Items that are equal without punctuation are the same one."""
    wanted = {" ".join(plain(item.text).split()[:most_words]): item for item in items}
    wanted.pop("", None)
    missing = {words: item for words, item in wanted.items() if not text.has(words)}
    lost = {words: item for words, item in missing.items() if not text.keeps(item)}
    return RetainedItems(
        kept=len(wanted) - len(missing),
        total=len(wanted),
        lost=tuple(item.text for item in lost.values()),
        loosely=len(missing) - len(lost),
        weighed=_weighed(wanted.values(), lost.values()),
    )


def _weighed(wanted: Iterable[Item], lost: Iterable[Item]) -> float:
    total = sum(item.weight for item in wanted)
    return 1 - sum(item.weight for item in lost) / total if total else 1.0
