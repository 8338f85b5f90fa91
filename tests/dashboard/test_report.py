"""The report says what the file says: totals exact, splits that add up, every call counted once."""

import json
from datetime import date
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_session import SmallSession, call, compacted, reading, text

from everturn.dashboard.figures.calls import CacheUse, collect_calls, cost_of
from everturn.dashboard.figures.tools import DuplicateRead, LargeResult, about
from everturn.dashboard.figures.views import CompactionRow, MicroCompactionRow, SidechainRow, ViewRow
from everturn.dashboard.report import ContextReport, as_json, context_report
from everturn.history.blocks import block_from_fields
from everturn.session.recorded import measure_transcript
from everturn.wire.claude_code_reader import parse_session_file


def report_of(session: SmallSession, **settings) -> ContextReport:
    return context_report(measure_transcript(parse_session_file(session.to_bytes()), **settings))


def tokens_by_key(report: ContextReport) -> dict[str, int]:
    return {category.key: category.tokens for category in report.categories if category.tokens}


def test_categories_add_up_to_the_size_that_the_api_reported():
    report = report_of(reading())
    assert (report.size.tokens, report.size.basis) == (40_100, "usage")
    assert sum(tokens_by_key(report).values()) == 40_100
    # 520 characters of question stand before the first call of 20,010 tokens.
    assert tokens_by_key(report)["system"] == 19_880


def test_what_is_left_is_free_up_to_the_mark_and_buffer_beyond_it():
    report = report_of(reading())
    assert (report.free, report.buffer) == (167_000 - 40_100, 33_000)
    full = report_of(SmallSession().human("Hi.").reply("m1", text("Hi."), plain=170_000))
    assert (full.free, full.buffer, full.level) == (0, 30_000, "compaction")


@pytest.mark.parametrize(
    ("context", "level"),
    [(146_999, "ok"), (147_000, "warning"), (167_000, "compaction"), (177_000, "blocked")],
)
def test_the_level_is_the_furthest_mark_that_is_passed(context, level):
    assert report_of(SmallSession().human("Hi.").reply("m1", text(""), plain=context)).level == level


def test_the_columns_of_the_tool_table_add_up_to_their_categories():
    report = report_of(reading())
    split = tokens_by_key(report)
    assert sum(use.request_tokens for use in report.tools) == split["tool_requests"]
    assert sum(use.result_tokens for use in report.tools) == split["tool_results"]
    assert [(use.tool, use.calls) for use in report.tools] == [("Read", 2), ("Bash", 1)]


def test_a_file_read_twice_is_half_wasted():
    report = report_of(reading())
    # Twice 17,000 characters, stretched like everything else.
    each = 4_250 * report.stretch
    assert report.duplicate_reads == (
        DuplicateRead(path="/home/me/parser.py", count=2, tokens=round(2 * each), wasted=round(each)),
    )


def test_the_largest_results_say_what_they_are_about_on_one_line():
    report = report_of(reading())
    assert [(large.tool, large.about) for large in report.largest_results] == [
        ("Read", "/home/me/parser.py"),
        ("Read", "/home/me/parser.py"),
        ("Bash", "pytest -q tests"),
    ]
    assert report.largest_results[2] == LargeResult(
        tool="Bash", about="pytest -q tests", tokens=round(1_600 * report.stretch), call="c2"
    )


def test_a_cleared_result_is_neither_large_nor_repeated():
    report = report_of(reading().cleared("c1", "c2", before=40_100, saved=5_850))
    assert [large.call for large in report.largest_results] == ["c3"]
    assert report.duplicate_reads == ()
    assert report.micro_compactions == (
        MicroCompactionRow(
            when="2026-01-05T10:09:00Z",
            results=2,
            tokens_before=40_100,
            tokens_saved=5_850,
            why="auto micro-compaction",
        ),
    )
    assert report.size.freed == 4_250 + 1_600 - 16


def test_each_view_tells_how_it_was_used_and_what_ended_it():
    report = report_of(compacted())
    assert report.views == (
        ViewRow(
            records=5,
            calls=2,
            first_context=150_000,
            peak_context=159_000,
            compaction=CompactionRow(
                trigger="auto",
                tokens_before=160_000,
                when="2026-01-05T10:05:00Z",
                context_after=31_000,
                summary_tokens=270,
            ),
        ),
        ViewRow(records=5, calls=1, first_context=31_000, peak_context=31_000, compaction=None),
    )


def test_calls_that_were_kept_through_a_compaction_are_counted_in_their_own_view_only():
    session = SmallSession().human("Hi.").reply("m1", text("Hi."), plain=90_000).boundary(91_000)
    kept = {"headUuid": "u1", "anchorUuid": "u2", "tailUuid": "u1"}
    session.lines[-1]["compactMetadata"]["preservedSegment"] = kept
    report = report_of(session.summary("So far.").reply("m2", text("Hi."), plain=20_000))
    assert [(view.calls, view.peak_context) for view in report.views] == [(1, 90_000), (1, 20_000)]


def test_after_a_compaction_what_nobody_wrote_down_is_apart_from_the_system_prompt():
    session = SmallSession().human("Hi.").reply("m1", text("Hi."), plain=20_001)
    session.boundary(160_000).summary("four" * 1000).reply("m2", text("Hi."), plain=31_000)
    split = tokens_by_key(report_of(session))
    assert (split["system"], split["unrecorded"], sum(split.values())) == (20_000, 10_000, 31_000)


def test_what_came_before_a_slice_is_not_called_a_system_prompt():
    session = reading()
    session.lines[0]["parentUuid"] = "before"
    split = tokens_by_key(report_of(session))
    assert "system" not in split
    assert split["unrecorded"] == 19_880


def test_a_context_that_shrank_keeps_its_messages_in_the_split():
    session = SmallSession().human("four" * 10_000).reply("m1", text("Hi."), plain=90_000)
    session.human("Hi.").reply("m2", text("Hi."), plain=60_000)
    split = tokens_by_key(report_of(session))
    # 80,000 tokens outside of the file at first cannot be right any more.
    assert split["human"] == pytest.approx(10_000, abs=10)
    assert sum(split.values()) == 60_000


def test_a_session_without_usage_is_estimated_whole():
    report = report_of(SmallSession().human("four" * 300))
    assert (report.size.basis, tokens_by_key(report)) == ("estimate", {"human": 400})
    assert report.cache == CacheUse(calls=0, read=0, written=0, plain=0, output=0, hit_rate=None)
    assert report.cost.dollars == 0


def test_a_response_in_several_lines_is_one_call_and_its_last_line_counts():
    report = report_of(reading())
    # The first response was written twice, with 300 and then 340 tokens of output.
    assert report.cache == CacheUse(
        calls=4,
        read=84_010,
        written=39_885,
        plain=115,
        output=520,
        hit_rate=84_010 / 124_010,
    )


def test_dollars_are_those_of_the_list():
    report = report_of(reading())
    # Opus 4.5: 5 dollars a million in, 6.25 written for five minutes, 0.50 read, 25 out.
    expected = {
        "input": Decimal(115 * 5),
        "cache_read": Decimal(84_010) / 2,
        "cache_write_5m": 39_885 * Decimal("6.25"),
        "output": Decimal(520 * 25),
    }
    assert {line.kind: line.dollars * 1_000_000 for line in report.cost.lines} == expected
    assert report.cost.dollars * 1_000_000 == sum(expected.values())


def test_lifetimes_and_searches_are_billed_as_the_file_reports_them():
    session = SmallSession().human("Hi.").reply("m1", text("Hi."), written=1_000)
    session.lines[-1]["message"]["usage"] |= {
        "cache_creation": {"ephemeral_1h_input_tokens": 1_000},
        "server_tool_use": {"web_search_requests": 2},
    }
    lines = report_of(session).cost.lines
    assert [(line.kind, line.dollars) for line in lines] == [
        ("cache_write_1h", Decimal("0.01")),
        ("web_search", Decimal("0.02")),
    ]


def test_a_model_without_a_price_is_named_and_not_guessed():
    session = (
        SmallSession("some-model")
        .human("Hi.")
        .reply("m1", text("Hi."), plain=9)
        .reply("m2", text("Hi."), plain=9)
    )
    report = report_of(session)
    assert (report.cost.dollars, report.cost.unpriced) == (0, {"some-model": 2})


def test_a_call_without_a_time_is_priced_as_on_the_first_day_of_its_model():
    session = SmallSession().human("Hi.").reply("m1", text("Hi."), plain=1_000_000)
    session.lines[-1]["timestamp"] = "yesterday"
    calls = collect_calls(parse_session_file(session.to_bytes()).records)
    assert calls[0].day is None
    assert cost_of(calls).dollars == 5
    assert collect_calls(parse_session_file(reading().to_bytes()).records)[0].day == date(2026, 1, 5)


def test_sub_agents_are_paid_for_in_the_whole_file_and_measured_apart():
    side = SmallSession(agent="abc").human("Look.").reply("s1", text("Found."), plain=5_000)
    transcript = parse_session_file(reading().to_bytes() + side.to_bytes())
    whole = context_report(measure_transcript(transcript))
    assert whole.sidechains == (SidechainRow(agent="abc", records=2, calls=1, peak_context=5_000),)
    assert whole.cache.calls == 5
    assert whole.size.tokens == 40_100
    alone = context_report(measure_transcript(transcript, agent="abc"))
    assert (alone.agent, alone.cache.calls, alone.sidechains) == ("abc", 1, ())


def test_what_was_odd_is_reported():
    session = (
        SmallSession().human("Hi.").reply("m1", call("c1", "Bash", command="ls"), plain=9).human("Stop.")
    )
    data = session.to_bytes() + b"// a note\n"
    odd = context_report(measure_transcript(parse_session_file(data))).oddities
    assert [flaw.kind for flaw in odd.flaws] == ["comment"]
    assert [repair.kind for repair in odd.repairs] == ["missing_result"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"command": "ls\n -l", "description": "List"}, "ls -l"),
        ({"description": "List", "file_path": "  "}, "List"),
        ({"path": 3, "query": "q"}, "q"),
        ({}, ""),
        ("words", ""),
    ],
)
def test_a_call_is_about_its_most_telling_input(given, said):
    assert about(block_from_fields({"type": "tool_use", "id": "c", "name": "X", "input": given})) == said


@given(
    st.lists(
        st.tuples(st.text(max_size=400), st.integers(0, 300_000), st.integers(0, 9_000)),
        min_size=1,
        max_size=8,
    )
)
def test_the_split_adds_up_whatever_was_said_and_reported(turns):
    session = SmallSession()
    for number, (words, context, out) in enumerate(turns):
        session.human(words).reply(f"m{number}", text(words), plain=context, out=out)
    report = report_of(session)
    assert sum(category.tokens for category in report.categories) == report.size.tokens
    assert min(category.tokens for category in report.categories) >= 0


KEYS = {
    "title",
    "id",
    "source", "session", "agent", "records", "model", "window", "size", "limits", "levels", "level", "free",
    "buffer", "calibration", "stretch", "categories", "tools", "duplicate_reads", "largest_results", "views",
    "micro_compactions", "sidechains", "cache", "cost", "oddities",
    "decisions", "head", "unused_dollars",
}  # fmt: skip


def test_the_json_has_the_promised_keys_and_numbers_in_full():
    written = json.loads(as_json(report_of(compacted())))
    assert set(written) == KEYS
    assert written["cost"]["dollars"] == pytest.approx(1.18125 + 0.0755 + 0.004, abs=1e-9)
    assert written["views"][0]["compaction"]["trigger"] == "auto"
