"""Parse search queries from users and models.

All words must occur; words in double quotes must occur as a phrase. There is no other syntax: operators,
brackets and stars of the search engine are ordinary characters.
"""

import re
import unicodedata
from typing import Final

import msgspec

from everturn.errors import UsageError

# More words only make a query slower; a longer text was pasted by mistake.
MAX_TERMS: Final = 24
MAX_CHARACTERS: Final = 1_000

_TERMS: Final = re.compile(r'"([^"]*)"|([^\s"]+)')
# Scripts written without spaces, in which words can be found only as substrings.
_UNSPACED: Final = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]"
)


class Query(msgspec.Struct, frozen=True):
    """`is_literal`: a quoted phrase holds punctuation, which the full-text index does not contain."""

    terms: tuple[str, ...]
    is_literal: bool = False

    @property
    def needs_letters(self) -> bool:
        """Whether a term cannot be in the full-text index, for example "->" or "解析"."""
        alone = any(not re.search(r"\w", term) or _UNSPACED.search(term) for term in self.terms)
        return self.is_literal or alone

    def all_of(self) -> str:
        return " AND ".join(_phrase(term) for term in self.terms)

    def any_of(self) -> str:
        return " OR ".join(_phrase(term) for term in self.terms)

    def patterns(self) -> list[str]:
        """LIKE patterns that find each term anywhere; wildcards in the term are escaped."""
        return ["%" + re.sub(r"([\\%_])", r"\\\1", term) + "%" for term in self.terms]


def parse_query(text: str) -> Query:
    if len(text) > MAX_CHARACTERS:
        raise UsageError(f"A query has at most {MAX_CHARACTERS:,} characters; this one has {len(text):,}.")
    clean = "".join(" " if _is_control(each) else each for each in text)
    terms: list[tuple[str, str]] = _TERMS.findall(clean)
    found = tuple(dict.fromkeys(term for phrase, word in terms if (term := (phrase or word).strip())))
    if not found:
        raise UsageError("The query is empty; give one or more words.")
    return Query(found[:MAX_TERMS], any(re.search(r"[^\w\s]", phrase) for phrase, _ in terms))


def _is_control(letter: str) -> bool:
    """Control characters and surrogates, which indexed text cannot contain."""
    return unicodedata.category(letter) in ("Cc", "Cs")


def _phrase(term: str) -> str:
    return '"' + term.replace('"', '""') + '"'
