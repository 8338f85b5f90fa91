"""Texts that can be encoded: neither JSON nor the API takes half of a surrogate pair.

Python has such texts for names of files that are not UTF-8 (`os.listdir`), and a text that was cut between
the two halves of a pair.
"""

from typing import Any

from everturn.wire.json_values import is_mapping, is_sequence


def replace_lone_surrogates(text: str) -> str:
    """The text with U+FFFD for every lone surrogate. Two halves of a pair become their character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def make_encodable(value: Any) -> Any:
    """The same for every text in a value of JSON. What is neither a text, a list nor a mapping stays."""
    if isinstance(value, str):
        return replace_lone_surrogates(value)
    if is_mapping(value):
        return {make_encodable(name): make_encodable(part) for name, part in value.items()}
    if is_sequence(value):
        return [make_encodable(part) for part in value]
    return value
