"""What a compaction did with everything, told to the model in a few lines (CP-34)."""

from collections.abc import Sequence


def receipt(retained: Sequence[str], recoverable: Sequence[str], dropped: Sequence[str]) -> str:
    lines = (
        ("Kept word for word or restored", retained),
        ("Can be read again", recoverable),
        ("No longer here", dropped),
    )
    said = [f"- {title}: {'; '.join(items)}." for title, items in lines if items]
    return "\n".join(("What the compaction did:", *said))
