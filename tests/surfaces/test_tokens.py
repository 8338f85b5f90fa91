"""How full a context is, as `Session.context` and `everturn context` say it (TOK)."""

import json

import pytest
from surfaces.desk import SUMMARY, assistant_line, call, result, text, usage, user_line

from everturn import ContextFullError, LocalTokenizer, ProviderCounts
from everturn.measure.model_table import find_model
from everturn.measure.thresholds import ThresholdSettings
from everturn.measure.tokens import ROUGH
from everturn.session.estimated_costs import EstimatedCosts
from everturn.session.upstream import RawResponse

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


# ── other estimators ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("TOK-7")
def test_a_program_brings_its_own_tokenizer(desk):
    found = size(desk, user_line("one two three four"), estimator=LocalTokenizer(str.split))
    assert (found.rough_tail, found.tokens) == (4, 6)


@pytest.mark.spec("TOK-7")
def test_counts_of_the_providers_endpoint_are_used_for_the_records_they_are_about(desk):
    asked = "Why does the login test wait for the token? " * 40
    client = desk.twin.client()
    messages = [{"role": "user", "content": asked}]
    counted = client.messages.count_tokens(model=desk.model, messages=messages).input_tokens
    rough = len(asked) // 4
    assert abs(counted - rough) > 20
    found = size(desk, user_line(asked), user_line("x" * 40), estimator=ProviderCounts({"u0": counted}))
    assert found.rough_tail == counted + 10


def spoken(growth):
    """Ten calls. Each adds 110 tokens by our estimate, and as many as that by the API's count."""
    lines = []
    for turn in range(10):
        reported = usage(5_000 + turn * growth)
        lines.append(user_line("q" * 400))
        lines.append(assistant_line(text("a" * 40), id=f"msg_{turn}", usage=reported))
    return [*lines, user_line("y" * 4_000)]


@pytest.mark.spec("TOK-7")
@pytest.mark.parametrize(
    ("growth", "calibrate", "tail"), [(220, True, 2_000), (110, True, 1_000), (220, False, 1_334)]
)
def test_the_usage_of_a_session_corrects_its_own_estimates(desk, growth, calibrate, tail):
    desk.write(*spoken(growth))
    with desk.open(access="read", tokens={"calibrate": calibrate}) as session:
        context = session.context()
    assert (context.size.rough_tail, context.size.estimated_tail) == (1_000, tail)
    assert (context.calibration.ratio, context.calibration.samples) == (growth / 110, 9)
    report = json.loads(desk.everturn("context", desk.path, "--json").stdout)["calibration"]
    assert (report["ratio"], report["samples"]) == (growth / 110, 9)


class Watched:
    """An estimator, and costs, that remember how many characters they were asked about."""

    def __init__(self, model):
        self.characters, self.tier = 0, ROUGH.tier
        self._costs = EstimatedCosts(find_model(model))
        self.turn, self.tool_prompt, self.trailing = self._costs.turn, self._costs.tool_prompt, 0
        self.keeps_thinking = self._costs.keeps_thinking

    def text(self, words):
        self.characters += len(words)
        return ROUGH.text(words)

    def counted(self, uuid):
        return None

    def block(self, block):
        self.characters += len(block.raw)
        return self._costs.block(block)


@pytest.mark.spec("TOK-8")
def test_one_more_turn_counts_its_own_records_even_behind_a_million_tokens(desk):
    model = "claude-opus-5"
    long = "The login test waits for the token. " * 1_000
    lines = []
    for turn in range(60):
        lines += [user_line(long), assistant_line(text(long), id=f"msg_{turn}", model=model)]
    desk.write(*lines)
    watched, sent = Watched(model), []

    def answer(body, betas):
        """A provider that takes any length: what it counts does not matter here."""
        sent.append(len(body))
        message = assistant_line(text("Well."), id=f"reply_{len(sent)}")["message"]
        return RawResponse(json.dumps({**message, "stop_reason": "end_turn"}).encode())

    with desk.open(
        client=None, send=answer, model=model, estimator=watched, costs=watched, policy="none"
    ) as session:
        assert session.context().size.tokens > 1_000_000
        session.send("Hello.")
        assert watched.characters > 8_000_000
        # The reply before this message was still open when the file ended; it is counted once more.
        session.send("Hello again.")
        for _ in range(2):
            watched.characters = 0
            session.send("And now?")
            session.context()
            assert 0 < watched.characters < 1_000
    assert min(sent) > 4_000_000


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
    with desk.open(ways=("extract",), policy="claude-code") as session:
        session.send("And now?")
    assert bool(desk.heard("CompactionDone")) is compacts


@pytest.mark.spec("TOK-15", "CF-2")
def test_with_auto_compaction_off_the_shown_limit_is_the_effective_window(desk, monkeypatch):
    monkeypatch.setenv("DISABLE_AUTO_COMPACT", "1")
    assert limits(desk) == {
        "effective": 180_000,
        "auto": 167_000,
        "shown": 180_000,
        "warning": 160_000,
        "error": 160_000,
        "blocking": 177_000,
    }


@pytest.mark.spec("TOK-15")
@pytest.mark.parametrize(
    ("off", "used", "left", "warns", "blocks"),
    [
        ("0", 16_700, 90, False, False),
        ("0", 146_999, 12, False, False),
        ("0", 147_000, 12, True, False),
        ("0", 190_000, 0, True, True),
        ("1", 159_999, 11, False, False),
        ("1", 160_000, 11, True, False),
        ("1", 176_999, 2, True, False),
        ("1", 177_000, 2, True, True),
    ],
)
def test_warning_error_percent_left_and_blocking_are_shown_alike_by_session_and_command(
    desk, monkeypatch, off, used, left, warns, blocks
):
    monkeypatch.setenv("DISABLE_AUTO_COMPACT", off)
    desk.write(user_line("Hi."), assistant_line(text("Yes."), usage=usage(used)))
    with desk.open(access="read") as session:
        levels = session.context().levels
    expected = (left, warns, warns, blocks)
    assert (levels.percent_left, levels.above_warning, levels.above_error, levels.at_blocking) == expected
    told = json.loads(desk.everturn("context", desk.path, "--json", DISABLE_AUTO_COMPACT=off).stdout)[
        "levels"
    ]
    names = ("percent_left", "above_warning", "above_error", "at_blocking")
    assert tuple(told[name] for name in names) == expected


@pytest.mark.spec("TOK-15")
def test_without_auto_compaction_nothing_is_sent_beyond_the_blocking_limit_until_it_is_compacted(
    desk, monkeypatch
):
    monkeypatch.setenv("DISABLE_AUTO_COMPACT", "1")
    long = "The login test waits for the token. " * 400
    desk.write(user_line(long), assistant_line(text("I see."), usage=usage(177_000)))
    with desk.open() as session:
        with pytest.raises(ContextFullError, match=r"177,00\d tokens.*177,000.*compact by hand"):
            session.send("And now?")
        assert (desk.bodies, desk.heard("CompactionDone")) == ([], [])
        desk.twin.script(SUMMARY, "Well.")
        session.compact()
        assert session.send().text == "Well."
    assert [entry["status"] for entry in desk.twin.ledger] == [200, 200]


@pytest.mark.spec("TOK-15")
def test_below_the_blocking_limit_it_is_sent(desk, monkeypatch):
    monkeypatch.setenv("DISABLE_AUTO_COMPACT", "1")
    desk.write(user_line("Hi."), assistant_line(text("I see."), usage=usage(176_900)))
    assert desk.send_once("Go on.")["messages"][-1]["content"][0]["text"] == "Go on."
    assert desk.heard("CompactionDone") == []
