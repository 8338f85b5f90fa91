"""The texts of the recall tool: its description for the model, and its answers (BY-4)."""

from typing import Any, Final

NAME: Final = "recall"
# The maximum that one answer may add to a context that was just made smaller.
MAX_CHARACTERS: Final = 12_000

TOOL: Final[dict[str, Any]] = {
    "name": NAME,
    "description": (
        "Search everything that was ever said or done in this session, word for word: also what is no longer "
        "in your context because it was cleared or summarized. Use it when you need an exact detail (a path, "
        "an error message, a number, the user's wording) instead of guessing. Give words that occur in the "
        'text; words in "double quotes" must stand together. Each hit names its record; give that as '
        "`record` to read the whole of it."
    ),
    "input_schema": {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "Words to look for."},
            "limit": {"type": "integer", "description": "How many hits at most.", "minimum": 1},
            "record": {"type": "string", "description": "Instead of a query: the record to read in full."},
            "from": {"type": "integer", "description": "With `record`: the character to start at."},
        },
    },
}


def hit(number: int, *, record: str, what: str, at: str, state: str, snippet: str) -> str:
    when = f", {at}" if at else ""
    return f"{number}. {what}{when}, {state}, record {record}\n{snippet}"


def nothing(query: str) -> str:
    return f"Nothing in this session has {query}. Try fewer or other words."


def page(record: str, start: int, text: str, whole: int) -> str:
    """Part of a record that is `whole` characters long."""
    end = start + len(text)
    more = (
        f'\n[Characters {start:,} to {end:,} of {whole:,}. Go on with "from": {end}.]' if end < whole else ""
    )
    return f"[Record {record}]\n{text}{more}"


def cut(text: str) -> str:
    """An answer within the limit."""
    note = "\n[Cut here: the answer is too long.]"
    return text if len(text) <= MAX_CHARACTERS else text[: MAX_CHARACTERS - len(note)] + note
