"""Everything everturn raises. A type names who is at fault; the message says what to do.

    EverturnError
    ├── UsageError              you asked for something that cannot be done
    │   ├── ContextFullError    nothing more fits, and automatic compaction is off
    │   └── PromptBlocked       a hook of yours does not allow this prompt
    ├── InputError              a file or value you gave us is not what it should be
    │   └── NotASession         the file is readable, but not a session that we know
    ├── StoreError              the disk, or another process, does not let us keep what happened
    │   ├── SessionLocked       another process is writing this session
    │   ├── LeaseLost           another process has taken over this session since
    │   └── StoreUnavailable    the database does not answer; nothing is known to be wrong with the session
    └── UpstreamError           the provider answered with an error, or not at all
        └── InvalidResponseError    the provider answered with something that is not a message

Repairs are not errors: a session that arrives broken is opened, repaired and reported (`history/repair.py`),
never refused.
"""

from everturn.redaction import redact_secrets

# How much of what came instead of a message is shown to whoever must find out why.
_SHOWN_BYTES = 200


class EverturnError(Exception):
    """Base of all. The message is for people: what happened, with which value, what to do."""


class UsageError(EverturnError):
    """You asked for something that cannot be done, or in a way that cannot be understood."""


class ContextFullError(UsageError):
    """The context has reached the blocking limit, and automatic compaction is off. Nothing was sent."""


class PromptBlocked(UsageError):
    """A UserPromptSubmit hook does not allow this prompt. Nothing was said."""


class InputError(EverturnError):
    """A file or value you gave us is not what it should be."""


class NotASession(InputError):
    """The file is readable, but it is not a session that we know."""


class StoreError(EverturnError):
    """The disk, or another process, does not let us keep what happened. Nothing of it was acknowledged."""


class SessionLocked(StoreError):
    """Another process is writing this session."""


class LeaseLost(StoreError):
    """This process did not renew its lease in time, and another one writes the session now."""


class StoreUnavailable(StoreError):
    """The database does not answer, answers too late, or has no connection left."""


class UpstreamError(EverturnError):
    """The provider answered with an error, or not at all (status 0). The message is the provider's own,
    without what looks like a key: some providers repeat the header that they were sent."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        message = redact_secrets(message)
        super().__init__(f"{status} {kind}: {message}" if status else f"{kind}: {message}")
        self.status = status
        self.kind = kind
        self.message = message


class InvalidResponseError(UpstreamError):
    """The provider answered, and what it sent is not a message of the API."""

    def __init__(self, body: bytes, problem: str) -> None:
        came = body[:_SHOWN_BYTES].decode("utf-8", "replace") or "nothing"
        super().__init__(
            0,
            "invalid_response",
            f"the provider's answer is not a message ({problem}). It began with: {came!r}. "
            "What was said is kept; call again.",
        )
