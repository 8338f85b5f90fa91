"""How many files and connections the system lets this process have open.

A conversation in memory has its transcript and the lock of that open. Without a limit on their number, those
of a few tenants use up the 1,024 descriptors that are usual, and then no connection is accepted any more.
"""

import resource
from contextlib import suppress
from typing import Final

# What a process that serves asks for, if the administrator allows so many. Our choice.
WANTED: Final = 65_536
# What macOS allows at most, whatever it says.
_MACOS_MOST: Final = 10_240
# One conversation for so many descriptors: it has two, twice as many conversations may wait for a reply
# (`memory.py`), and the rest is for connections. Our choice.
SHARE: Final = 6


def allow_many() -> None:
    """For a process that only serves: use what the administrator allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = WANTED if hard == resource.RLIM_INFINITY else min(WANTED, hard)
    for wanted in (most, min(most, _MACOS_MOST)):
        if soft == resource.RLIM_INFINITY or soft >= wanted:
            return
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            return


def count_conversations() -> int:
    """How many conversations with files of their own this process may have in memory."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(1, (WANTED if soft == resource.RLIM_INFINITY else min(WANTED, soft)) // SHARE)
