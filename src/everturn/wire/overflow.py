"""How providers report "too long": one table of their error messages, with the token gap if given.

A context engine must tell a full window from every other 400. The wordings differ and change, so they are
kept here as data with their origin (api-facts 5). An unknown wording is not treated as an overflow.
"""

import re
from typing import Literal

import msgspec

Vendor = Literal["anthropic", "bedrock", "vertex", "openai", "gemini"]


class Overflow(msgspec.Struct, frozen=True):
    """A request that did not fit. Zero tokens: the error message does not say."""

    vendor: Vendor
    tokens: int = 0
    limit: int = 0

    @property
    def gap(self) -> int:
        """By how many tokens the request was too long; 0 if unknown."""
        return max(0, self.tokens - self.limit) if self.limit else 0


class _Wording(msgspec.Struct, frozen=True):
    vendor: Vendor
    pattern: re.Pattern[str]


def _wording(vendor: Vendor, pattern: str) -> _Wording:
    return _Wording(vendor, re.compile(pattern, re.IGNORECASE))


# Bounded, so that every match can be converted: Python refuses to convert thousands of digits.
_N = r"(\d[\d,]{0,20})"

# Most specific first: a wording with numbers comes before its bare form, and a vendor's wrapper before the
# words it wraps. Groups: tokens and limit, or three numbers (input, max_tokens, limit).
WORDINGS = (
    _wording(
        "bedrock", rf"the model returned the following errors: .*prompt is too long: {_N} tokens > {_N} max"
    ),
    _wording("anthropic", rf"prompt is too long: {_N} tokens > {_N} maximum"),
    _wording("anthropic", rf"input length and `max_tokens` exceed context limit: {_N} \+ {_N} > {_N}"),
    _wording("anthropic", r"request size exceeds model context window"),
    _wording("bedrock", r"input is too long for requested model"),
    _wording(
        "openai", rf"maximum context length is (?P<limit>{_N[1:-1]}) tokens.*?(?P<tokens>{_N[1:-1]}) tokens"
    ),
    _wording("openai", r"context_length_exceeded"),
    _wording("openai", r"your input exceeds the context window of this model"),
    _wording("gemini", rf"input token count \({_N}\) exceeds the maximum number of tokens allowed \({_N}\)"),
    _wording("vertex", r"prompt is too long"),
)


def parse_overflow(message: str) -> Overflow | None:
    """The overflow that an error message reports; None if it is about something else."""
    for wording in WORDINGS:
        if match := wording.pattern.search(message):
            return Overflow(wording.vendor, *_numbers(match))
    return None


def _numbers(match: re.Match[str]) -> tuple[int, int]:
    named = match.groupdict()
    if named:
        return _number(named["tokens"]), _number(named["limit"])
    found = [_number(group) for group in match.groups()]
    return (sum(found[:-1]), found[-1]) if found else (0, 0)


def _number(digits: str) -> int:
    return int(digits.replace(",", ""))
