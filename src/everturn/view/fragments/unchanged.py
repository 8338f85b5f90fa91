"""The result of a second read of a file that is unchanged and still visible in the conversation (MC-18)."""

from typing import Final

# Starts as in Claude Code: `measure/accounting.py` recognises the first words, so that the note is never
# counted as the content of the file.
OPENING: Final = "File unchanged since you read it"


def unchanged_file(name: str) -> str:
    return (
        f"{OPENING}: {name}. The earlier Read result in this conversation is complete "
        "and current; use it instead of reading the file again."
    )
