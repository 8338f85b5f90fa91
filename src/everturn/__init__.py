"""everturn: a context engine for LLM agents.

The names below are the front door. Each is imported when it is first asked for, so that importing everturn
costs nothing; the rooms behind it can be imported directly, and may change.
"""

from importlib import import_module

# Checkers know the name by itself. Importing `typing` for it would slow every status line (bench/start.py).
TYPE_CHECKING = False
if TYPE_CHECKING:
    from everturn.adapters.anthropic_sdk.middleware import middleware
    from everturn.dashboard.report import ContextReport, context_report
    from everturn.errors import EverturnError, InputError, NotASession, UsageError
    from everturn.session.async_session import AsyncSession
    from everturn.session.recorded import RecordedSession, open_session
    from everturn.session.session import Session
    from everturn.session.tools import Tool

__version__ = "0.1.0"

__all__ = [
    "AsyncSession",
    "ContextReport",
    "EverturnError",
    "InputError",
    "NotASession",
    "RecordedSession",
    "Session",
    "Tool",
    "UsageError",
    "__version__",
    "context_report",
    "middleware",
    "open_session",
]

_HOMES = {
    "AsyncSession": "everturn.session.async_session",
    "ContextReport": "everturn.dashboard.report",
    "EverturnError": "everturn.errors",
    "InputError": "everturn.errors",
    "NotASession": "everturn.errors",
    "RecordedSession": "everturn.session.recorded",
    "Session": "everturn.session.session",
    "Tool": "everturn.session.tools",
    "UsageError": "everturn.errors",
    "context_report": "everturn.dashboard.report",
    "middleware": "everturn.adapters.anthropic_sdk.middleware",
    "open_session": "everturn.session.recorded",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'everturn' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
