"""The status line, from whole payloads to whole lines."""

import json
from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everturn.adapters.claude_code.statusline import build_segments, format_line
from everturn.adapters.claude_code.transcript_tail import parse_timestamp
from everturn.measure.reserves import auto_compact_threshold
from everturn.measure.thresholds import ThresholdSettings, compute_thresholds

NOW = parse_timestamp("2026-11-15T10:00:00Z") or 0.0
PLAIN = {"NO_COLOR": "1"}
FULL = {
    "model": {"id": "claude-opus-5-5", "display_name": "Opus 5.5"},
    "workspace": {"current_dir": "/home/me"},
    "cost": {"total_cost_usd": 12.345},
    "context_window": {
        "context_window_size": 200_000,
        "used_percentage": 42,
        "current_usage": {
            "input_tokens": 3,
            "output_tokens": 500,
            "cache_creation_input_tokens": 997,
            "cache_read_input_tokens": 83_000,
        },
    },
    "prompt_cache": {
        "ttl": "5m",
        "expires_at": "2026-11-15T10:03:12Z",
        "hit_ratio": 0.973,
        "warm": True,
        "last_miss_cause": {"causes": ["tools_changed", "ttl_expired_5m"]},
    },
}


def line(payload: object, now: float = NOW, **environment: str) -> str:
    return format_line(json.dumps(payload).encode(), PLAIN | environment, now)


def without(*names: str) -> dict:
    payload = deepcopy(FULL)
    inner = payload
    for name in names[:-1]:
        inner = inner[name]
    del inner[names[-1]]
    return payload


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (
            "200",
            "Opus 5.5 · context 42% (50% of auto-compact) · cache hit 97% · warm 3:12 · $12.35"
            " · missed: tools changed, ttl expired 5m",
        ),
        ("100", "Opus 5.5 · context 42% (50% of auto-compact) · cache hit 97% · warm 3:12 · $12.35 · missed"),
        ("80", "Opus 5.5 · context 42% (50% of auto-compact) · hit 97% · 3:12 · $12.35 · missed"),
        ("60", "Opus 5.5 · 42%/50% · hit 97% · 3:12 · $12.35 · missed"),
        ("40", "42%/50% · hit 97% · 3:12 · $12.35"),
        ("20", "42%/50% · 3:12"),
        ("10", "42%/50%"),
        ("3", "42%"),
    ],
)
def test_a_line_fits_its_terminal(columns, expected):
    assert line(FULL, COLUMNS=columns) == expected


@pytest.mark.parametrize("columns", ["", "0", "-3", "wide", "²", "9" * 20])
def test_without_a_width_everything_is_shown(columns):
    assert line(FULL, COLUMNS=columns) == line(FULL, COLUMNS="200")


def test_colours_say_what_is_urgent():
    payload = {
        "context_window": {"context_window_size": 200_000, "used_percentage": 82},
        "prompt_cache": {"expires_at": NOW + 30},
    }
    drawn = format_line(json.dumps(payload).encode(), {}, NOW)
    red, yellow = "\x1b[31mcontext 82% (98% of auto-compact)\x1b[0m", "\x1b[33mwarm 0:30\x1b[0m"
    assert drawn == f"{red}\x1b[2m · \x1b[0m{yellow}"
    assert "\x1b" not in format_line(json.dumps(payload).encode(), {"TERM": "dumb"}, NOW)


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (without("model"), "context 42% (50% of auto-compact) · cache hit 97% · warm 3:12 · $12.35"),
        (without("model", "display_name"), "claude-opus-5-5 · context 42% (50% of auto-compact)"),
        (
            without("cost"),
            "Opus 5.5 · context 42% (50% of auto-compact) · cache hit 97% · warm 3:12 · missed",
        ),
        (without("context_window"), "Opus 5.5 · cache hit 97% · warm 3:12 · $12.35 · missed"),
        (without("context_window", "context_window_size"), "Opus 5.5 · context 42% · cache hit 97%"),
        (without("context_window", "used_percentage"), "Opus 5.5 · context 42% (50% of auto-compact)"),
        (without("context_window", "current_usage"), "Opus 5.5 · context 42% (50% of auto-compact)"),
        (without("prompt_cache"), "Opus 5.5 · context 42% (50% of auto-compact) · cache hit 99% · $12.35"),
        (
            without("prompt_cache", "hit_ratio"),
            "Opus 5.5 · context 42% (50% of auto-compact) · cache hit 99%",
        ),
        (
            without("prompt_cache", "expires_at"),
            "Opus 5.5 · context 42% (50% of auto-compact) · cache hit 97% · $",
        ),
        ({}, ""),
    ],
)
def test_what_is_not_given_is_left_out(payload, expected):
    assert line(payload).startswith(expected)


@pytest.mark.parametrize(
    ("cache", "expected"),
    [
        ({"expires_at": "2026-11-15T10:59:59Z"}, "warm 59:59"),
        ({"expires_at": NOW + 61}, "warm 1:01"),
        ({"expires_at": (NOW + 61) * 1_000}, "warm 1:01"),
        ({"expires_at": "2026-11-15T10:00:00Z"}, "cold"),
        ({"warm": False}, "cold"),
        ({"warm": True}, ""),
        ({"expires_at": "soon"}, ""),
    ],
)
def test_the_countdown_ends_when_the_cache_does(cache, expected):
    assert line({"prompt_cache": cache}) == expected


def test_an_older_claude_code_is_served_from_the_transcript(tmp_path):
    usage = {
        "input_tokens": 10,
        "cache_read_input_tokens": 90_000,
        "cache_creation_input_tokens": 9_990,
        "cache_creation": {"ephemeral_1h_input_tokens": 9_990},
    }
    reply = {
        "type": "assistant",
        "timestamp": "2026-11-15T09:30:00Z",
        "message": {"model": "opus", "usage": usage},
    }
    (tmp_path / "s.jsonl").write_text(json.dumps(reply) + "\n")
    payload = {"transcript_path": str(tmp_path / "s.jsonl")}
    assert line(payload) == "opus · context 100k · cache hit 90% · warm 30:00"
    # Right after /compact the usage is null, and the last reply is about a context that is gone.
    window = {"context_window_size": 200_000, "current_usage": None}
    assert line(payload | {"context_window": window}) == "opus · cache hit 90% · warm 30:00"


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, "context 42% (50% of auto-compact)"),
        ({"DISABLE_AUTO_COMPACT": "1"}, "context 42%"),
        ({"CLAUDE_CODE_AUTO_COMPACT_WINDOW": "150000"}, "context 42% (72% of auto-compact)"),
        ({"CLAUDE_CODE_AUTO_COMPACT_WINDOW": "900000"}, "context 42% (50% of auto-compact)"),
        ({"CLAUDE_CODE_AUTO_COMPACT_WINDOW": "5"}, "context 42% (50% of auto-compact)"),
        ({"CLAUDE_AUTOCOMPACT_PCT_OVERRIDE": "50"}, "context 42% (93% of auto-compact)"),
        ({"CLAUDE_AUTOCOMPACT_PCT_OVERRIDE": "99"}, "context 42% (50% of auto-compact)"),
    ],
)
def test_the_automatic_mark_is_where_claude_code_has_it(environment, expected):
    payload = {"context_window": FULL["context_window"] | {"current_usage": None}}
    assert line(payload, **environment) == expected


@pytest.mark.parametrize("percent", [None, 50.0, 100.0])
@pytest.mark.parametrize("window", [16_000, 200_000, 1_000_000])
def test_the_automatic_mark_is_that_of_the_library(window, percent):
    library = compute_thresholds(window, 64_000, ThresholdSettings(auto_percent=percent)).auto
    assert auto_compact_threshold(window, percent) == library


def test_control_characters_do_not_reach_the_terminal():
    payload = {
        "model": {"display_name": "Op\x1b[31mus\n"},
        "prompt_cache": {"last_miss_cause": {"causes": ["a\x07b", "model_changed"]}},
    }
    assert line(payload) == "Op[31mus · missed: model changed"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
ANY_FIELD = st.sampled_from([path for top in FULL for path in [(top,), *((top, name) for name in FULL[top])]])


@given(ANY_FIELD, JSON, st.integers(1, 60))
def test_any_value_in_any_field_gives_one_line_that_fits(path, value, columns):
    payload = deepcopy(FULL)
    inner = payload if len(path) == 1 else payload[path[0]]
    inner[path[-1]] = value
    drawn = line(payload, COLUMNS=str(columns))
    assert "\n" not in drawn
    assert len(drawn) <= columns


@given(st.binary())
def test_any_bytes_give_one_line(data):
    assert "\n" not in format_line(data, PLAIN, NOW)


def test_parts_are_named_so_that_they_can_be_left_out():
    names = [part.name for part in build_segments(FULL, {}, NOW)]
    assert names == ["model", "context", "hit", "cache", "cost", "miss"]
