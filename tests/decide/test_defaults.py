"""What a value has by default: where a caller, a file of an earlier version or a provider says nothing."""

from typing import Any

from struct_defaults import defaults

from everturn.decide.cache_breaks import Baseline, BreakSettings, DetectedBreak, Diagnosis, NoBreak
from everturn.decide.cache_key_snapshot import CacheKeySnapshot
from everturn.decide.compact.breakers import CompactionBreaker, RefillBreaker
from everturn.decide.compact.budget import TruncatedText
from everturn.decide.compact.call_index import Called
from everturn.decide.compact.context import CompactionContext, LeastTokens
from everturn.decide.compact.divide import Division
from everturn.decide.compact.outline import FileOutline
from everturn.decide.compact.pins import Pins
from everturn.decide.compact.restored_attachments import RestoredAttachment
from everturn.decide.compact.state import UsableNotes
from everturn.decide.compact.summary_response import SummaryCheck
from everturn.decide.compact.triggers import ProposalState
from everturn.decide.compact.values import (
    Attempt,
    Compaction,
    CompactionChain,
    CompactionFailed,
    CompactionPlan,
    CompactionRequest,
    CompactionSkipped,
    Receipt,
    RestorationPlan,
)
from everturn.decide.economy.decisions import EconomicDecision
from everturn.decide.economy.head import HeadTool
from everturn.decide.economy.holds import HoldDecision, HoldInputs
from everturn.decide.economy.prices import RelativePrices
from everturn.decide.economy.resets import ResetInputs
from everturn.decide.economy.reuse import ReuseCount
from everturn.decide.economy.state import EconomyState
from everturn.decide.effects import AskModel, FileRead, HookOutcome, ModelFailure
from everturn.decide.events import (
    BreakerOpened,
    CacheBroken,
    CacheHeld,
    CompactionDone,
    CompactionNotDone,
    EventContext,
    HookTrouble,
    MicroCompacted,
    PassedThrough,
    Repaired,
    TranscriptDamaged,
    TranscriptShared,
)
from everturn.decide.extractive.reading.facts import (
    AgentReport,
    EarlierSummary,
    Facts,
    FileWork,
    QuotedText,
    TaskItem,
    ToolAction,
    ToolFailure,
    WorkState,
)
from everturn.decide.extractive.settings import SummarySettings
from everturn.decide.extractive.summarize import Summary
from everturn.decide.extractive.writing.fitting import DroppedEntry, FittedSection, SummaryEntry
from everturn.decide.micro.cache_edit_state import CacheEditState
from everturn.decide.micro.context import MicroContext, MicroPlan, OffloadPlan
from everturn.decide.micro.declarative import AppliedContextEdit
from everturn.decide.notes.document import Notes, NotesState
from everturn.decide.notes.extraction import NotUpdated, Replacement
from everturn.decide.result_tracker import TrackedResult
from everturn.decide.retention.matching import Item, RetainedItems
from everturn.decide.retention.score import Retention, RetentionFigures
from everturn.decide.rewind import RewindPlan
from everturn.decide.tools import ToolKinds
from everturn.decide.view_tracker import TrackerInputs

# Defaults that are values of their own are left to the tests of those.
DEFAULTS: dict[type, dict[str, Any]] = {
    BreakSettings: {"share": 0.05, "tokens": 2000, "max_sources": 10},
    Diagnosis: {"missed": 0},
    DetectedBreak: {"diagnosis": None, "disagreement": ""},
    NoBreak: {"diagnosis": None},
    Baseline: {"answered": None, "read": 0, "under_way": None, "pending": (), "passes_over": "nothing"},
    CacheKeySnapshot: {"scopes": ()},
    QuotedText: {"record": "", "about": "", "is_reported": False},
    ToolAction: {"target": "", "new_text": "", "detail": ""},
    FileWork: {"read": 0, "edited": 0, "wrote": 0, "new_text": "", "notes": "", "by_user": False},
    ToolFailure: {"then": None, "feedback": "", "passed": False, "passed_since": ""},
    AgentReport: {"record": "", "failed": False},
    WorkState: {
        "permission": "",
        "is_planning": False,
        "plan": "",
        "plan_approved": False,
        "plan_age": 0,
        "under_way": "",
        "git_known": False,
        "last_check": "",
    },
    TaskItem: {"status": "pending"},
    EarlierSummary: {"intent": ""},
    Facts: {"changes": (), "offer": "", "tasks_known": False, "is_answered": False, "ends_with_words": False},
    Summary: {"dropped": ()},
    DroppedEntry: {"record": ""},
    FittedSection: {"dropped": ()},
    SummaryEntry: {"rank": 0, "short": "", "record": ""},
    CacheEditState: {
        "groups": (),
        "looked_at": 0,
        "pending": (),
        "pinned": (),
        "reported": 0,
        "baseline": 0,
        "awaits_report": False,
        "rests": False,
    },
    MicroContext: {
        "size": 0,
        "in_tool_loop": False,
        "binds_thinking": False,
        "thinking_tokens_after": None,
        "records": (),
        "counts": None,
    },
    OffloadPlan: {"why": ""},
    MicroPlan: {
        "edits": (),
        "why": "",
        "tokens_saved": 0,
        "delete": (),
        "offload": (),
        "forgotten": (),
        "detector_notice": "nothing",
        "resets_cached": False,
    },
    AppliedContextEdit: {"cleared": 0, "tokens": 0},
    Item: {"weight": 1.0, "least": 0.6, "exact": False, "any_of": ()},
    RetainedItems: {"kept": 0, "total": 0, "lost": (), "loosely": 0, "weighed": 1.0},
    Retention: {"wrong": (), "tokens": 0},
    CompactionBreaker: {
        "failures": 0,
        "last": "",
        "limit": 3,
        "spent": 0,
        "calls": 3,
        "opened_at": 0.0,
        "calls_since": 0,
        "retry_after": 600.0,
        "retry_calls": 20,
    },
    RefillBreaker: {"in_a_row": 0, "stopped": ""},
    TruncatedText: {"is_cut": False, "left_out": 0},
    Called: {"result": None},
    CompactionContext: {
        "measured": None,
        "betas": (),
        "transcript": "",
        "notes": "",
        "notes_end_before": "",
        "calls": None,
    },
    Division: {"kept": (), "moved": ""},
    Pins: {"carried": (), "unpinned": ()},
    RestoredAttachment: {"fields": {}},
    UsableNotes: {"text": "", "end_before": ""},
    SummaryCheck: {"text": "", "problem": ""},
    ProposalState: {"quiet_below": 0},
    CompactionRequest: {
        "form": "full",
        "at": "",
        "instructions": "",
        "is_reactive": False,
        "keeps_nothing": False,
    },
    CompactionChain: {"follows": "", "turns_since": 0, "length": 1, "threshold": 0, "source": "main"},
    RestorationPlan: {
        "files": (),
        "skipped": (),
        "unanswered": None,
        "todos": "",
        "plan": "",
        "skills": (),
        "agents": (),
        "tools": (),
        "plan_mode": False,
        "listings": (),
        "discovered": (),
        "read": (),
    },
    CompactionPlan: {
        "metrics": None,
        "fixed": 0,
        "tokens_summarized": 0,
        "tokens_kept": 0,
        "messages_summarized": 0,
        "messages_kept": 0,
        "unpinned": (),
        "keeps_newest": False,
    },
    Receipt: {"scored": None},
    Attempt: {"text": "", "problem": "", "failure": None, "block": None},
    Compaction: {"plan": None},
    CompactionFailed: {"plan": None},
    FileRead: {"text": "", "is_cut": False, "problem": ""},
    AskModel: {"parent": None, "is_overflow_retry": False},
    ModelFailure: {"overflow": None},
    HookOutcome: {
        "instructions": (),
        "context": (),
        "messages": (),
        "problems": (),
        "blocked": "",
        "permission": "",
        "asks": "",
        "updated_input": None,
        "updated_output": None,
        "ended": "",
    },
    EventContext: {"session": "", "source": "main", "model": ""},
    MicroCompacted: {"why": "", "files": ()},
    CompactionDone: {"figures": None, "scored": None},
    CompactionNotDone: {"detail": ""},
    CacheBroken: {"disagreement": ""},
    BreakerOpened: {"detail": ""},
    Repaired: {"details": ()},
    HookTrouble: {"details": ()},
    PassedThrough: {"detail": ""},
    TranscriptShared: {"path": ""},
    NotesState: {"covers": "", "tokens": 0, "calls": 0},
    Notes: {"problem": ""},
    Replacement: {"every": False},
    NotUpdated: {"answers": ()},
    TrackedResult: {"path": "", "characters": 0, "is_error": False, "may_read_files": False},
    RewindPlan: {"text": ""},
    ToolKinds: {"reproducible": (), "write_like": (), "keep": (), "reads": (), "clear_all": False},
    TrackerInputs: {"offered": ()},
    LeastTokens: {"sent": 0, "unsent": 0},
    FileOutline: {"root": "", "lines": ()},
    CompactionSkipped: {"attempts": ()},
    EconomicDecision: {"cost": 0.0, "expected": 0.0},
    HeadTool: {"calls": 0, "is_deferred": False},
    HoldDecision: {"refusal": ""},
    HoldInputs: {"form": "hour"},
    RelativePrices: {"ttl": "5m"},
    ResetInputs: {"is_cached": True, "head": 0, "unanswered": 0},
    ReuseCount: {"exchanges": 0, "needed": 0},
    EconomyState: {
        "resets": (),
        "boundary": "",
        "base": None,
        "carry": 0.0,
        "spent": 0.0,
        "unmanaged": 0.0,
        "held": 0.0,
        "surplus": 0,
        "shared": 0,
        "prompt": 0,
        "output": 0,
        "cached": 0,
        "called_at": None,
        "holds": 0,
        "was_reset": False,
        "share_before": None,
        "quiet_below": 0,
        "unpriced": "",
    },
    CacheHeld: {"dollars": 0.0, "expected": 0.0, "usage": None},
    TranscriptDamaged: {"what": "", "path": ""},
    RetentionFigures: {"wrong": ()},
    SummarySettings: {
        "budget": 8_000,
        "shares": {6: 0.32, 8: 0.16, 1: 0.13, 7: 0.08, 4: 0.07, 5: 0.09, 3: 0.11, 9: 0.03, 2: 0.01},
        "short_messages": 0.7,
        "rungs": (4_000, 2_000, 1_000, 500, 250, 120, 60),
        "request": 600,
        "sentence": 300,
        "files": 40,
        "snippet_lines": 12,
        "snippet": 600,
        "failures": 30,
        "corrections": 20,
        "conclusions": 12,
        "reports": 24,
        "report": 500,
        "new_report": 1_200,
        "new_reports": 3,
        "concepts": 24,
        "calls": 8,
        "findings": 8,
        "commits": 8,
        "statement": 1_600,
    },
}


def test_what_is_not_given_has_these_values():
    assert {made: defaults(made, expected) for made, expected in DEFAULTS.items()} == DEFAULTS
