"""Open a recorded session to compact it or to undo a compaction.

The model and the working folder come from the recording. An API key decides whether a model can write the
summary. To only read a session, use `session/recorded.py`.
"""

import os
from collections.abc import Sequence
from typing import Any, Final

from everturn.decide.options import Options
from everturn.errors import UsageError
from everturn.session.recorded import open_session, recorded_folder
from everturn.session.session import Session
from everturn.session.upstream import RawResponse

KEY_VARIABLES: Final = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")


def reopen_session(
    file: str | os.PathLike[str],
    model: str = "",
    *,
    dry_run: bool = False,
    options: Options | None = None,
) -> Session:
    """Open the session in an existing file. Without an API key only strategies that need no model are used.
    Files are read from the folder the session worked in, not from the current folder."""
    # Opened for reading first: this finds the model, and reports problems of the file.
    recorded = open_session(file, options=options)
    chosen = options or Options()
    given = (chosen.provider.api_key, chosen.provider.auth_token)
    has_key = any(given) or any(map(os.environ.get, KEY_VARIABLES))
    # No fork: a session file does not contain the system prompt and tools that a fork repeats.
    usable = ("direct", "provider", "extractive") if has_key else ("extractive",)
    strategies = tuple(each for each in chosen.compact.strategies if each in usable) or ("extractive",)
    provider: dict[str, Any] = {} if has_key else {"send": _no_provider}
    return Session.open(
        file,
        chosen,
        config=None,
        model=model or chosen.model or recorded.model.id,
        compact={"strategies": strategies},
        access="read" if dry_run else "write",
        # It is a file, wherever other conversations are kept.
        store={"url": ""},
        cwd=recorded_folder(recorded.thread.records) or os.getcwd(),
        **provider,
    )


def _no_provider(body: bytes, betas: Sequence[str]) -> RawResponse:
    raise UsageError(f"Cannot call a model: {KEY_VARIABLES[0]} is not set.")
