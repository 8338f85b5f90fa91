"""Pages whose generated parts stand between markers, which are HTML comments."""

from everturn.errors import UsageError


def insert_between(page: str, start: str, end: str, text: str) -> str:
    """The page with this text between two markers, instead of what stood there."""
    before, found, rest = page.partition(start)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise UsageError(f"The page has no markers. Put {start} and {end} where the table belongs.")
    return f"{before}{start}\n{text}\n{end}{after}"
