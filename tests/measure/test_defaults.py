"""What a value has by default: where a caller, a file of an earlier version or a provider says nothing."""

from typing import Any

from struct_defaults import defaults

from everturn.measure.calibration import Calibration
from everturn.measure.capabilities import Capabilities
from everturn.measure.meter import ContextSize
from everturn.measure.model import Model, Price
from everturn.measure.model_table import Guess, ModelTable
from everturn.measure.outline import CacheKeySalts, Preamble
from everturn.measure.prediction import Prediction
from everturn.measure.prefix_cache import PromptLayout
from everturn.measure.pricing import BilledTokens, PriceLine
from everturn.measure.thresholds import ThresholdSettings
from everturn.measure.tokens import CharactersPerToken, RecordCount, TokenCount
from everturn.measure.tool_table import EditFields, ToolEntry, ToolRow, ToolTable

# Defaults that are values of their own are left to the tests of those.
DEFAULTS: dict[type, dict[str, Any]] = {
    Calibration: {"ratio": 1.0, "samples": 0, "error_before": None, "error_after": None},
    Capabilities: {
        "name": "",
        "caching": False,
        "ttls": (),
        "scopes": (),
        "max_breakpoints": 0,
        "lookback": 20,
        "runs_are_one": True,
        "cache_edits": False,
        "context_editing": False,
        "native_compaction": False,
        "diagnostics": False,
        "token_counting": False,
    },
    ContextSize: {"freed": 0},
    Price: {"above_prompt_tokens": -1},
    Model: {
        "fast": None,
        "aliases": (),
        "lifecycle": "active",
        "retires": None,
        "chars_per_token": 2.5,
        "thinking": frozenset(),
        "thinks_by_default": False,
        "unthinking_up_to": None,
        "keeps_thinking": True,
        "binds_thinking": False,
        "efforts": (),
        "default_effort": None,
        "prefill": False,
        "sampling": False,
        "forced_tool_choice": True,
        "tool_prompt": 286,
        "tool_prompt_forced": 406,
        "compacts": True,
        "system_messages": False,
        "refuses_overflow": False,
        "sharp_images": True,
        "us_surcharge": True,
    },
    Guess: {"guessed": ""},
    ModelTable: {"added": ()},
    CacheKeySalts: {"scope": (), "tools": (), "system": (), "messages": (), "forced_tokens": 0},
    Preamble: {"tools": (), "system": (), "marked": (), "scopes": ()},
    Prediction: {"hit": None},
    PromptLayout: {
        "minimum": 0,
        "lookback": 20,
        "rewrites_below_hit": True,
        "alive_at_ttl": True,
        "longer_marker_lengthens": False,
        "hour_survives_prefix": True,
    },
    PriceLine: {"iteration": "message"},
    BilledTokens: {"input": 0, "read": 0, "write_5m": 0, "write_1h": 0, "output": 0},
    ThresholdSettings: {
        "output_reserve": 20000,
        "auto_margin": 13000,
        "warning_margin": 20000,
        "error_margin": 20000,
        "blocking_margin": 3000,
        "auto_compaction": True,
        "auto_percent": None,
    },
    CharactersPerToken: {"characters": 4},
    TokenCount: {"guessed": 0, "counted": 0},
    RecordCount: {"blocks": ()},
    EditFields: {"all": ""},
    ToolRow: {
        "names": (),
        "does": "other",
        "is_reproducible": False,
        "has_large_input": False,
        "by_command": (),
        "prints_files": False,
        "replaces": None,
    },
    ToolEntry: {
        "does": None,
        "path": None,
        "command": None,
        "is_reproducible": None,
        "has_large_input": None,
    },
    ToolTable: {"entries": ()},
}


def test_what_is_not_given_has_these_values():
    assert {made: defaults(made, expected) for made, expected in DEFAULTS.items()} == DEFAULTS
