"""What a value has by default: where a caller, a file of an earlier version or a provider says nothing."""

from typing import Any

from struct_defaults import defaults

from everturn.history.blocks import Block
from everturn.history.edits import (
    CacheDeleted,
    CacheDeletionsEnded,
    Cleared,
    Compacted,
    Offloaded,
    Pinned,
    Rewound,
    ServerCleared,
    ThinkingDropped,
    ToldAsText,
    Trimmed,
    Undone,
)
from everturn.history.log import View
from everturn.history.records import CacheCreation, Record, ReplyMeta, Usage
from everturn.history.threads import Thread, Threads

# Defaults that are values of their own are left to the tests of those.
DEFAULTS: dict[type, dict[str, Any]] = {
    Block: {"call": "", "tool": ""},
    Cleared: {"why": "", "tokens_before": 0, "tokens_saved": 0},
    Compacted: {
        "trigger": "auto",
        "tokens_before": 0,
        "messages_summarized": 0,
        "user_context": "",
        "logical_parent": "",
        "discovered_tools": (),
        "kept": None,
    },
    Undone: {"why": ""},
    Pinned: {"source": ""},
    Offloaded: {"why": ""},
    ThinkingDropped: {"why": "", "until": ""},
    ToldAsText: {"why": ""},
    CacheDeleted: {"why": ""},
    CacheDeletionsEnded: {"why": ""},
    ServerCleared: {"count": 0, "tokens": 0},
    Rewound: {"why": ""},
    Trimmed: {"why": ""},
    View: {"offloaded": {}, "stale": frozenset(), "pins": (), "shrunk": frozenset()},
    CacheCreation: {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
    Usage: {
        "input_tokens": 0,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": 0,
        "cache_creation": None,
    },
    ReplyMeta: {
        "message_id": "",
        "model": "",
        "stop_reason": "",
        "usage": None,
        "request_id": "",
        "deleted_tokens": None,
    },
    Record: {
        "parent": "",
        "timestamp": "",
        "session": "",
        "agent": "",
        "sidechain": False,
        "meta": False,
        "compact_summary": False,
        "transcript_only": False,
        "display_only": False,
        "api_error": False,
        "subtype": "",
        "permission_mode": "",
        "blocks": (),
        "reply": None,
        "edit": None,
    },
    Thread: {"abandoned": (), "notes": ()},
    Threads: {"sidechains": ()},
}


def test_what_is_not_given_has_these_values():
    assert {made: defaults(made, expected) for made, expected in DEFAULTS.items()} == DEFAULTS
