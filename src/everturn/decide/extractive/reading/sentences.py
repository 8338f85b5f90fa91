"""Sentences, and which are worth keeping: standing rules, conclusions, announcements.

Recognised by words, in English only; a rule in another language is still in the user's message, which is kept
whole. The definition of an identifier is here, for the summary and for its score.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

_BREAK: Final = re.compile(r"(?<=[.!?])\s+|\n+")
_MARKUP: Final = " \t\r-*>#•"

_STANDING: Final = re.compile(
    r"\b(?:never(?! ?mind\b)|always|(?:do not|don'?t)(?! (?:remember|recall|know|understand)\b)|must(?:n'?t)?"
    r"|should(?:n'?t| not| never| always)|avoid|prefer|make sure|ensure|from now on|no longer"
    r"|(?<!do not )(?<!don't )(?<!dont )remember|forbidden|not allowed|only ever|at all times"
    r"|instead of|rather than|keep (?:each|every|all|it|the)|leave \S+ alone|stop \w+ing)\b"
    r"|^(?:please )?(?:use|only|no|without|stick to|keep) \w+",
    re.IGNORECASE,
)
# A pasted line such as "test_a.py:12: the value should be 3".
_OUTPUT: Final = re.compile(r"\S{1,200}:\d{1,9}:")
_CONCLUSION: Final = re.compile(
    r"\b(?:because|root cause|turns out|decided|the (?:real |actual )?(?:issue|problem|bug|cause|reason|fix)"
    r"|this means|therefore|confirmed|the solution|works now|now (?:works?|passe?s?)|(?:all|the) tests pass"
    r"|fixed (?:by|it)|going with|so the)\b",
    re.IGNORECASE,
)
_ANNOUNCED: Final = re.compile(
    r"\b(?:(?:TODO|FIXME)\b|next,)"
    r"|\b(?:next(?: step| up| I)|remaining|still (?:need|have|to)|left to do|not yet|then I(?:'ll| will)"
    r"|let me now|now (?:I'll|let me)|I(?:'ll| will) (?:now|then|next))\b",
    re.IGNORECASE,
)
# "I see the issue now." has no information.
_MIN_SENTENCE_LENGTH: Final = 24
# ASCII on purpose: identifiers of code, and several times faster.
_DEFINED: Final = re.compile(
    r"^[ \t]{0,16}(?:export |default |pub(?:\(\w{1,12}\))? |public |private |static |async )*"
    r"(?:func(?: \([^)\n]{1,80}\))?|def|class|type|struct|enum|interface|fn|function|trait)"
    r" ([A-Za-z_]\w{2,80})",
    re.MULTILINE,
)
_LONG_WORD: Final = re.compile(r"[A-Za-z_]\w{5,}", re.ASCII)
_IDENTIFIER: Final = re.compile(r"[A-Za-z0-9]_+[A-Za-z0-9]|[a-z0-9][A-Z]")


def sentences(text: str) -> list[str]:
    """Lines and sentences of a text, without list bullets and blank ones."""
    found = (piece.strip(_MARKUP) for piece in _BREAK.split(text))
    return [piece for piece in found if piece]


def standing_rules(text: str, most: int) -> Iterator[str]:
    """Sentences that apply beyond their own message; longer ones are pasted text, not rules."""
    for sentence in sentences(text):
        is_question = sentence.endswith("?")
        is_output = _OUTPUT.match(sentence)
        if len(sentence) <= most and not is_question and not is_output and _STANDING.search(sentence):
            yield sentence


def conclusions(text: str, most: int) -> Iterator[str]:
    return _those(_CONCLUSION, text, most)


def announcements(text: str, most: int) -> Iterator[str]:
    """Sentences that announce a next step. One that ends in a colon announces only the call after it, and a
    question announces nothing."""
    return (said for said in _those(_ANNOUNCED, text, most) if not said.endswith((":", "?")))


def _those(pattern: re.Pattern[str], text: str, most: int) -> Iterator[str]:
    """The sentences around the matches. The whole text is searched: most of it has no match."""
    end = 0
    for match in pattern.finditer(text):
        if match.start() < end:
            continue
        start, end = _around(text, match.start())
        sentence = text[start:end].strip(_MARKUP)
        if _MIN_SENTENCE_LENGTH <= len(sentence) <= most:
            yield sentence


def sentence_naming(text: str, name: str) -> str:
    """The last sentence of a text that contains a name; empty if there is none."""
    at = text.rfind(name)
    if at < 0:
        return ""
    start, end = _around(text, at)
    return text[start:end].strip(_MARKUP)


def _around(text: str, at: int) -> tuple[int, int]:
    start = text.rfind("\n", 0, at) + 1
    stop = text.find("\n", at)
    stop = len(text) if stop < 0 else stop
    for mark in (". ", "! ", "? "):
        start = max(start, text.rfind(mark, start, at) + 1)
        if (found := text.find(mark, at, stop)) >= 0:
            stop = min(stop, found + 1)
    return start, stop


def definitions(code: str) -> list[str]:
    """Names of functions and types that a piece of code defines, in the usual languages."""
    return _DEFINED.findall(code)


def long_words(text: str) -> list[str]:
    return _LONG_WORD.findall(text)


def identifiers(words: Iterable[str]) -> list[str]:
    """The words that look like identifiers: an underscore or a capital letter inside."""
    return [word for word in words if _IDENTIFIER.search(word)]
