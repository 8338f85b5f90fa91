"""What a person or a model types, made safe to search with.

There is no query language to get wrong: words must all occur, and words in double quotes must stand together.
Operators, brackets and stars of the search engine are ordinary characters here.
"""

import re
import unicodedata
from typing import Final

import msgspec

from everturn.errors import UsageError

# More words than this only make a query slower; more characters are a pasted text, not a query.
MAX_TERMS: Final = 24
MAX_CHARACTERS: Final = 1_000

_TERMS: Final = re.compile(r'"([^"]*)"|([^\s"]+)')
# Scripts that are written without blanks, in which a word is found only by its letters.
_UNSPACED: Final = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]"
)


class Query(msgspec.Struct, frozen=True):
    """`is_literal`: signs were quoted with the words, and an index of words knows no signs."""

    terms: tuple[str, ...]
    is_literal: bool = False

    @property
    def needs_letters(self) -> bool:
        """Whether a term has no word in it that an index of words could know: "->", "解析"."""
        alone = any(not re.search(r"\w", term) or _UNSPACED.search(term) for term in self.terms)
        return self.is_literal or alone

    def all_of(self) -> str:
        return " AND ".join(_phrase(term) for term in self.terms)

    def any_of(self) -> str:
        return " OR ".join(_phrase(term) for term in self.terms)

    def patterns(self) -> list[str]:
        """For LIKE: each term anywhere, its own wildcards taken literally."""
        return ["%" + re.sub(r"([\\%_])", r"\\\1", term) + "%" for term in self.terms]


def parse_query(text: str) -> Query:
    if len(text) > MAX_CHARACTERS:
        raise UsageError(f"A query has at most {MAX_CHARACTERS:,} characters; this one has {len(text):,}.")
    clean = "".join(" " if _is_control(each) else each for each in text)
    terms = _TERMS.findall(clean)
    found = tuple(dict.fromkeys(filter(None, ((phrase or word).strip() for phrase, word in terms))))
    if not found:
        raise UsageError("There is nothing to look for; give one or more words.")
    return Query(found[:MAX_TERMS], any(re.search(r"[^\w\s]", phrase) for phrase, _ in terms))


def _is_control(letter: str) -> bool:
    """Controls, and halves of characters, which no text that is searched can hold."""
    return unicodedata.category(letter) in ("Cc", "Cs")


def _phrase(term: str) -> str:
    return '"' + term.replace('"', '""') + '"'
