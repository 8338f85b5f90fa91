"""Everything everturn raises. A type names who is at fault.

    EverturnError
    ├── InputError        the file or value you gave us is not what it should be
    │   └── NotASession   the file is readable, but it is no session that we know
    ├── UsageError        you asked for something that cannot be done
    └── StoreError        the disk, or another process, does not let us keep what happened
        └── SessionLocked another process is writing this session

Repairs are not errors: a session that arrives broken is opened, mended and reported
(`history/repair.py`), never refused.
"""


class EverturnError(Exception):
    """Base of all. The message is for people: what happened, with which value, what to do."""


class InputError(EverturnError):
    """The file or value you gave us is not what it should be."""


class NotASession(InputError):
    """The file is readable, but it is no session that we know."""


class UsageError(EverturnError):
    """You asked for something that cannot be done, or in a way that cannot be understood."""


class StoreError(EverturnError):
    """The disk, or another process, does not let us keep what happened. Nothing of it was acknowledged."""


class SessionLocked(StoreError):
    """Another process is writing this session."""
