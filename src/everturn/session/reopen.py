"""A session that somebody recorded, opened to be compacted or to take that back.

The recording names its model, and a key in the environment decides who writes a summary. To look at one only:
`session/recorded.py`.
"""

import os
from collections.abc import Sequence
from typing import Any, Final

from everturn.errors import UsageError
from everturn.session.recorded import open_session
from everturn.session.session import Session
from everturn.session.upstream import RawResponse

API_KEY_VARIABLE: Final = "ANTHROPIC_API_KEY"


def reopen_session(file: str | os.PathLike[str], model: str = "", *, dry_run: bool = False) -> Session:
    """The session in a file that exists, with the provider that there is a key for."""
    # First only to read: it names the model, and says in words what is wrong with the file.
    recorded = open_session(file)
    how: dict[str, Any] = {"send": _no_provider, "ways": ("extract",)}
    if os.environ.get(API_KEY_VARIABLE):
        # No fork: the system prompt and tools of a recorded session are not in its file.
        how = {"ways": ("direct", "extract")}
    return Session.open(file, model=model or recorded.model.id, access="read" if dry_run else "write", **how)


def _no_provider(body: bytes, betas: Sequence[str]) -> RawResponse:
    raise UsageError(f"There is no model to ask: {API_KEY_VARIABLE} is not set.")
