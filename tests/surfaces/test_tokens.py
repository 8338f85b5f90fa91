"""How full a context is, as `Session.context` and `everturn context` say it (TOK)."""

import json

import pytest
from surfaces.desk import assistant_line, call, result, text, usage, user_line

from everturn.measure.thresholds import ThresholdSettings

PICTURE = {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}
PAPER = {"type": "document", "source": {"type": "url", "url": "https://example.com/a.pdf"}}
READ = call("toolu_1", "Read", file_path="a.py")
# As the API spells it: {"file_path":"a.py"} has 20 characters, and the tool's name four.
READ_TOKENS = 24 // 4


def size(desk, *lines, **options):
    desk.write(*lines)
    with desk.open(access="read", system="", **options) as session:
        return session.context().size


@pytest.mark.spec("TOK-1", "TOK-4", "TOK-6")
@pytest.mark.parametrize(("characters", "rough", "padded"), [(4, 1, 2), (6, 2, 3), (4_000, 1_000, 1_334)])
def test_a_text_is_a_quarter_of_its_characters_and_padded_by_a_third(desk, characters, rough, padded):
    found = size(desk, user_line("x" * characters))
    assert (found.rough_tail, found.tokens, found.basis) == (rough, padded, "estimate")


@pytest.mark.spec("TOK-2", "TOK-3")
@pytest.mark.parametrize(
    ("block", "rough"),
    [(PICTURE, 2_000), (PAPER, 2_000), (result("toolu_1", [text("x" * 40), PICTURE]), 2_010 + READ_TOKENS)],
)
def test_pictures_and_documents_count_2000_each(desk, block, rough):
    before = [assistant_line(READ)] if block["type"] == "tool_result" else []
    assert size(desk, *before, user_line([block])).rough_tail == rough


@pytest.mark.spec("TOK-3")
def test_a_call_counts_its_name_and_input_a_result_its_text_and_thinking_its_text(desk):
    thinking = {"type": "thinking", "thinking": "t" * 400, "signature": "s" * 4_000}
    found = size(desk, assistant_line(thinking, READ), user_line([result("toolu_1", "r" * 800)]))
    assert found.rough_tail == 100 + READ_TOKENS + 200


@pytest.mark.spec("TOK-5")
def test_reported_usage_is_the_anchor_and_only_what_follows_it_is_estimated(desk):
    found = size(
        desk,
        user_line("x" * 100_000),
        assistant_line(text("Yes."), usage=usage(100, 200, 3_000, 40)),
        user_line("y" * 400),
    )
    assert (found.reported, found.estimated_tail, found.tokens) == (3_340, 134, 3_474)


@pytest.mark.spec("TOK-5", "TR-7")
def test_results_between_the_pieces_of_a_split_reply_count_as_new(desk):
    found = size(
        desk,
        user_line("Read two files."),
        assistant_line(READ, usage=usage(50, output=10)),
        user_line([result("toolu_1", "r" * 4_000)]),
        assistant_line(call("toolu_2", "Read", file_path="b.py"), usage=usage(50, output=10)),
        user_line([result("toolu_2", "s" * 400)]),
    )
    assert (found.reported, found.rough_tail) == (60, 1_000 + READ_TOKENS + 100)


@pytest.mark.spec("TOK-9", "TOK-10", "TOK-11")
def test_what_fills_the_context_is_told_by_tool_by_kind_and_by_file(desk):
    reads = [call(f"toolu_{n}", "Read", file_path="a.py") for n in (1, 2)]
    desk.write(
        user_line("h" * 400),
        assistant_line(text("a" * 200), reads[0]),
        user_line([result("toolu_1", "r" * 4_000)]),
        assistant_line(reads[1], id="msg_2"),
        user_line([result("toolu_2", "r" * 4_000)]),
        user_line("<local-command-stdout>" + "o" * 355 + "</local-command-stdout>"),
        {"type": "attachment", "attachment": {"type": "todo_reminder", "content": "x" * 40}},
    )
    with desk.open(access="read", system="") as session:
        metrics = session.context().metrics
    assert metrics.tool_requests == {"Read": 2 * READ_TOKENS}
    assert metrics.tool_results == {"Read": 2_000}
    assert (metrics.human, metrics.assistant, metrics.local_output) == (100, 50, 100)
    assert metrics.attachments == {"todo_reminder": 1}
    assert metrics.files_read_again == 1
    # floor(total / count) * (count - 1)
    assert metrics.wasted == 1_000
    assert metrics.total == sum([2 * READ_TOKENS, 2_000, 100, 50, 100, metrics.other, metrics.injected])


@pytest.mark.spec("TOK-11")
def test_an_empty_session_is_described_without_a_division_by_zero(desk):
    with desk.open(system="") as session:
        shares = session.context().metrics.shares
    assert {getattr(shares, name) for name in shares.__struct_fields__} == {0}


@pytest.mark.spec("TOK-9", "TOK-10")
def test_the_command_names_the_file_that_was_read_twice(desk):
    desk.write(
        user_line("Read it."),
        assistant_line(call("toolu_1", "Read", file_path="/a.py")),
        user_line([result("toolu_1", "r" * 4_000)]),
        assistant_line(call("toolu_2", "Read", file_path="/a.py"), id="msg_2"),
        user_line([result("toolu_2", "r" * 4_000)]),
    )
    report = json.loads(desk.everturn("context", desk.path, "--json").stdout)
    assert [(each["path"], each["count"]) for each in report["duplicate_reads"]] == [("/a.py", 2)]


# ── thresholds ───────────────────────────────────────────────────────────────────────────────────


def limits(desk, **thresholds):
    with desk.open(thresholds=thresholds) as session:
        found = session.context().limits
    return {name: getattr(found, name) for name in found.__struct_fields__}


@pytest.mark.spec("TOK-12", "TOK-13")
def test_a_window_of_200000_has_these_limits(desk):
    assert limits(desk) == {
        "effective": 180_000,
        "auto": 167_000,
        "shown": 167_000,
        "warning": 147_000,
        "error": 147_000,
        "blocking": 177_000,
    }


@pytest.mark.spec("TOK-14")
@pytest.mark.parametrize(
    ("percent", "auto"), [(50, 90_000), (100, 167_000), (0, 167_000), (101, 167_000), (-5, 167_000)]
)
def test_a_percentage_only_lowers_the_limit(desk, monkeypatch, percent, auto):
    monkeypatch.setenv("CLAUDE_AUTOCOMPACT_PCT_OVERRIDE", str(percent))
    assert limits(desk)["auto"] == auto


@pytest.mark.spec("TOK-16")
def test_without_auto_compaction_the_effective_window_is_shown_and_nothing_is_above_auto(desk):
    desk.write(user_line("Hi."), assistant_line(text("Yes."), usage=usage(178_000)))
    thresholds = ThresholdSettings(auto_compaction=False, warning_margin=30_000, error_margin=1_000)
    with desk.open(access="read", thresholds=thresholds) as session:
        context = session.context()
    assert (context.limits.shown, context.limits.warning, context.limits.error) == (180_000, 150_000, 179_000)
    levels = context.levels
    assert (levels.above_warning, levels.above_error, levels.above_auto) == (True, False, False)
    assert (levels.at_blocking, levels.percent_left) == (True, 1)


@pytest.mark.spec("TOK-13", "TOK-16")
@pytest.mark.parametrize(("used", "compacts"), [(166_000, False), (167_000, True)])
def test_a_session_compacts_by_itself_from_the_threshold_on(desk, used, compacts):
    long = "The login test waits for the token. " * 16_000
    desk.write(user_line(long), assistant_line(text("I see."), usage=usage(used)))
    desk.twin.script("Well.")
    with desk.open(ways=("extract",)) as session:
        session.send("And now?")
    assert bool(desk.heard("CompactionDone")) is compacts
