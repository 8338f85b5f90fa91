"""everturn: a context engine for LLM agents.

The names below are the public API. Each is imported when it is first used, so that importing everturn costs
nothing. Beside them, `everturn.twin`, `everturn.replay` and `everturn.adapters` are public too; what
is deeper may change.
"""

from importlib import import_module

# Checkers know the name by itself. Importing `typing` for it would slow every status line (bench/start.py).
TYPE_CHECKING = False
if TYPE_CHECKING:
    from everturn.adapters.anthropic_sdk.middleware import middleware
    from everturn.dashboard.report import ContextReport, context_report
    from everturn.decide.branches import Branch
    from everturn.decide.compact.triggers import Proposal
    from everturn.decide.compact.values import (
        Compaction,
        CompactionFailed,
        CompactionPlan,
        CompactionSkipped,
        Receipt,
    )
    from everturn.decide.effects import HookOutcome
    from everturn.decide.events import Event
    from everturn.decide.options import Options
    from everturn.decide.policy import POLICIES, Policy
    from everturn.decide.retention import measure_retention
    from everturn.errors import (
        ContextFullError,
        EverturnError,
        InputError,
        InvalidResponseError,
        LeaseLost,
        NotASession,
        PromptBlocked,
        SessionLocked,
        StoreError,
        StoreUnavailable,
        UpstreamError,
        UsageError,
    )
    from everturn.history.edits import Undone
    from everturn.measure.capabilities import PROVIDERS, Capabilities
    from everturn.measure.tokens import LocalTokenizer, ProviderCounts
    from everturn.session.async_session import AsyncSession
    from everturn.session.bill import Bill
    from everturn.session.config.load import load_options
    from everturn.session.hold_timers import end_holds
    from everturn.session.hooks.run import CallbackHook, Hooks
    from everturn.session.recall.search import Hit
    from everturn.session.recorded import RecordedSession, open_session
    from everturn.session.session import ContextUsage, Reply, Rewind, Session
    from everturn.session.tools import Tool, ToolCall, ToolResult
    from everturn.session.upstream import RawResponse
    from everturn.view.system_prompt import SystemPromptSections as Sections

__version__ = "0.2.0"

_HOMES = {
    "AsyncSession": "everturn.session.async_session",
    "Bill": "everturn.session.bill",
    "Branch": "everturn.decide.branches",
    "CallbackHook": "everturn.session.hooks.run",
    "Capabilities": "everturn.measure.capabilities",
    "Compaction": "everturn.decide.compact.values",
    "CompactionFailed": "everturn.decide.compact.values",
    "CompactionPlan": "everturn.decide.compact.values",
    "CompactionSkipped": "everturn.decide.compact.values",
    "ContextUsage": "everturn.session.session",
    "ContextFullError": "everturn.errors",
    "ContextReport": "everturn.dashboard.report",
    "Event": "everturn.decide.events",
    "EverturnError": "everturn.errors",
    "Hit": "everturn.session.recall.search",
    "HookOutcome": "everturn.decide.effects",
    "Hooks": "everturn.session.hooks.run",
    "InputError": "everturn.errors",
    "InvalidResponseError": "everturn.errors",
    "LeaseLost": "everturn.errors",
    "LocalTokenizer": "everturn.measure.tokens",
    "NotASession": "everturn.errors",
    "Options": "everturn.decide.options",
    "POLICIES": "everturn.decide.policy",
    "PROVIDERS": "everturn.measure.capabilities",
    "Policy": "everturn.decide.policy",
    "PromptBlocked": "everturn.errors",
    "Proposal": "everturn.decide.compact.triggers",
    "ProviderCounts": "everturn.measure.tokens",
    "RawResponse": "everturn.session.upstream",
    "Receipt": "everturn.decide.compact.values",
    "RecordedSession": "everturn.session.recorded",
    "Reply": "everturn.session.session",
    "Rewind": "everturn.session.session",
    "Sections": "everturn.view.system_prompt:SystemPromptSections",
    "Session": "everturn.session.session",
    "SessionLocked": "everturn.errors",
    "StoreError": "everturn.errors",
    "StoreUnavailable": "everturn.errors",
    "Tool": "everturn.session.tools",
    "ToolCall": "everturn.session.tools",
    "ToolResult": "everturn.session.tools",
    "Undone": "everturn.history.edits",
    "UpstreamError": "everturn.errors",
    "UsageError": "everturn.errors",
    "context_report": "everturn.dashboard.report",
    "end_holds": "everturn.session.hold_timers",
    "load_options": "everturn.session.config.load",
    "measure_retention": "everturn.decide.retention",
    "middleware": "everturn.adapters.anthropic_sdk.middleware",
    "open_session": "everturn.session.recorded",
}

__all__ = [
    "POLICIES",
    "PROVIDERS",
    "AsyncSession",
    "Bill",
    "Branch",
    "CallbackHook",
    "Capabilities",
    "Compaction",
    "CompactionFailed",
    "CompactionPlan",
    "CompactionSkipped",
    "ContextFullError",
    "ContextReport",
    "ContextUsage",
    "Event",
    "EverturnError",
    "Hit",
    "HookOutcome",
    "Hooks",
    "InputError",
    "InvalidResponseError",
    "LeaseLost",
    "LocalTokenizer",
    "NotASession",
    "Options",
    "Policy",
    "PromptBlocked",
    "Proposal",
    "ProviderCounts",
    "RawResponse",
    "Receipt",
    "RecordedSession",
    "Reply",
    "Rewind",
    "Sections",
    "Session",
    "SessionLocked",
    "StoreError",
    "StoreUnavailable",
    "Tool",
    "ToolCall",
    "ToolResult",
    "Undone",
    "UpstreamError",
    "UsageError",
    "__version__",
    "context_report",
    "end_holds",
    "load_options",
    "measure_retention",
    "middleware",
    "open_session",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'everturn' has no attribute {name!r}")
    module, _, attribute = _HOMES[name].partition(":")
    return getattr(import_module(module), attribute or name)


def __dir__() -> list[str]:
    return __all__
