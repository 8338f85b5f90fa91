"""The size of a context: what was reported, and what came since."""

from collections.abc import Sequence

import builders as b
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everturn.history.blocks import Block, block_from_fields, result_block, text_block
from everturn.history.edits import (
    CacheDeleted,
    CacheDeletionsEnded,
    Cleared,
    Compacted,
    Edit,
    KeptSegment,
    Offloaded,
    ThinkingDropped,
)
from everturn.history.log import Log, View
from everturn.history.records import SYNTHETIC, Record, ReplyMeta, Usage, reported_usage
from everturn.measure.accounting import Accounts
from everturn.measure.calibration import Calibration
from everturn.measure.context_size import measure_context
from everturn.measure.meter import PLACEHOLDER_TOKENS, ContextSize, Meter, estimate_view, make_meter
from everturn.measure.tokens import (
    LocalTokenizer,
    ProviderCounts,
    TokenCount,
    TokenCounter,
    estimate_block,
    pad_estimate,
)

USAGE = Usage(
    input_tokens=1, cache_creation_input_tokens=20, cache_read_input_tokens=300, output_tokens=4_000
)


def user(tokens: int, uuid: str = "u") -> Record:
    return Record(kind="user", uuid=uuid, blocks=(text_block("x" * 4 * tokens),))


def result(call: str, tokens: int, uuid: str = "r") -> Record:
    return Record(kind="user", uuid=uuid, blocks=(result_block(call, "x" * 4 * tokens),))


def reply(
    tokens: int, uuid: str, message: str = "", usage: Usage | None = USAGE, model: str = "claude-opus-4-5"
) -> Record:
    return Record(
        kind="assistant",
        uuid=uuid,
        blocks=(text_block("x" * 4 * tokens),),
        reply=ReplyMeta(message_id=message, model=model, usage=usage),
    )


def edited(edit: Edit, uuid: str = "e") -> Record:
    return Record(kind="system", uuid=uuid, edit=edit)


def thought(tokens: int, uuid: str, message: str, usage: Usage | None = None) -> Record:
    block = block_from_fields({"type": "thinking", "thinking": "x" * 4 * tokens, "signature": "s" * 900})
    return Record(
        kind="assistant", uuid=uuid, blocks=(block,), reply=ReplyMeta(message_id=message, usage=usage)
    )


def metered(records: Sequence[Record], *, preamble: int = 0, overhead: int | None = None) -> ContextSize:
    meter = Meter()
    for record in records:
        meter.add(record)
    return measure_context(meter, overhead=overhead, preamble=preamble)


@pytest.mark.spec("TOK-5")
def test_the_size_is_the_reported_total_plus_the_padded_tail():
    size = metered([user(90), reply(50, "a1", "m1"), user(60), user(15)], preamble=7_000)
    assert size == ContextSize(
        tokens=4_321 + 100, reported=4_321, estimated_tail=100, rough_tail=75, anchor="a1", basis="usage"
    )


@pytest.mark.spec("TOK-5")
def test_a_synthetic_reply_and_an_error_text_are_tail_at_most():
    synthetic = reply(30, "s", "m2", model=SYNTHETIC)
    error = Record(
        kind="assistant", uuid="e", api_error=True, reply=ReplyMeta(usage=USAGE), blocks=(text_block("no"),)
    )
    size = metered([reply(50, "a1", "m1"), synthetic, error])
    assert (size.anchor, size.rough_tail) == ("a1", 30)


@pytest.mark.spec("TOK-5")
def test_results_between_the_pieces_of_one_response_are_new():
    records = [
        reply(10, "a1", "m1", Usage(input_tokens=100, output_tokens=1)),
        result("c1", 600),
        reply(30, "a2", "m1", Usage(input_tokens=100, output_tokens=40)),
        result("c2", 900),
    ]
    assert metered(records) == ContextSize(
        tokens=140 + 2_040,
        reported=140,
        estimated_tail=2_040,
        rough_tail=600 + 30 + 900,
        anchor="a1",
        basis="usage",
    )


@pytest.mark.spec("TOK-6")
def test_without_usage_everything_is_estimated_system_prompt_and_tools_included():
    size = metered([user(60), reply(15, "a1", usage=None)], preamble=75)
    assert size == ContextSize(
        tokens=200, reported=0, estimated_tail=200, rough_tail=150, anchor="", basis="estimate"
    )


@pytest.mark.spec("TOK-6")
def test_what_an_earlier_usage_told_of_system_prompt_and_tools_is_not_padded():
    size = metered([user(60), reply(15, "a1", usage=None)], preamble=75, overhead=1_000)
    assert size == ContextSize(
        tokens=1_100, reported=1_000, estimated_tail=100, rough_tail=75, anchor="", basis="estimate"
    )


def test_the_usage_of_a_kept_record_never_becomes_the_anchor():
    meter = Meter()
    meter.add(user(45))
    meter.add_kept(reply(30, "a1", "m1", Usage(input_tokens=170_000)))
    assert meter.size() == ContextSize(
        tokens=100, reported=0, estimated_tail=100, rough_tail=75, anchor="", basis="estimate"
    )


@pytest.mark.spec("TOK-8")
def test_a_turn_costs_its_own_records_only():
    seen: list[str] = []

    def watched(text: str) -> str:
        seen.append(text)
        return text

    meter = Meter(TokenCounter(LocalTokenizer(watched)))
    for number in range(300):
        meter.add(reply(1, f"a{number}", f"m{number}"))
        meter.size()
    seen.clear()
    meter.add(user(2))
    assert meter.size() == meter.size()
    assert seen == ["x" * 8]


class NoLooking(dict[str, object]):
    """A mapping that may be asked for a key, and never walked through."""

    def __iter__(self):
        raise AssertionError("walked through everything known")

    items = values = keys = __iter__


@pytest.mark.spec("TOK-8")
def test_neither_adding_nor_measuring_walks_through_what_is_known():
    meter = Meter()
    for name in ("_first_piece", "_results", "_ordinals", "_previews"):
        setattr(meter, name, NoLooking())
    for number in range(20):
        meter.add(result(f"c{number}", 9, f"r{number}"))
        meter.add(reply(1, f"a{number}", f"m{number}"))
        meter.clear([f"c{number}"])
        assert meter.size().freed == 9 - PLACEHOLDER_TOKENS


def test_a_result_cleared_in_the_tail_leaves_the_size_at_once():
    meter = Meter()
    for record in (reply(1, "a1", "m1"), result("c1", 308), user(30)):
        meter.add(record)
    assert meter.clear(["c1", "c1", "unknown"]) == 300
    size = meter.size()
    assert (size.rough_tail, size.freed) == (PLACEHOLDER_TOKENS + 30, 0)
    assert meter.clear(["c1"]) == 0
    assert meter.size() == size


def test_a_result_cleared_before_the_anchor_stays_reported_until_the_next_usage():
    meter = Meter()
    for record in (result("c1", 308), reply(1, "a1", "m1")):
        meter.add(record)
    before = meter.size()
    meter.add(Record(kind="system", uuid="x", edit=Cleared(("c1",))))
    after = meter.size()
    assert (after.tokens, after.freed) == (before.tokens, 300)
    meter.add(reply(1, "a2", "m1"))
    assert meter.size().freed == 300, "a later piece of the same response"
    meter.add(reply(1, "a3", "m2"))
    assert meter.size().freed == 0


def test_only_what_is_cleared_behind_the_anchor_shortens_the_tail_in_whatever_order_it_is_cleared():
    meter = Meter()
    for record in (result("c1", 308), reply(1, "a1", "m1"), result("c2", 108, "r2"), user(60)):
        meter.add(record)
    meter.clear(["c2"])
    meter.clear(["c1"])
    size = meter.size()
    assert (size.rough_tail, size.freed) == (PLACEHOLDER_TOKENS + 60, 300)


def test_what_was_hidden_before_a_boundary_stays_hidden_in_the_records_kept_through_it():
    kept = KeptSegment(head="a1", anchor="s", tail="r2")
    log = Log(
        [
            user(900, "u1"),
            reply(5, "a1", "m1"),
            result("c1", 300, "r1"),
            result("c2", 300, "r2"),
            edited(Cleared(("c1",)), "e1"),
            edited(Offloaded("c2", "/tmp/c2", "p" * 80, 1_200), "e2"),
            Record(kind="system", uuid="b", subtype="compact_boundary", edit=Compacted(kept=kept)),
            Record(kind="user", uuid="s", compact_summary=True, blocks=(text_block("x" * 400),)),
            user(10, "u2"),
        ]
    )
    assert make_meter(log.view).estimate(preamble=17) == ContextSize(
        tokens=pad_estimate(17 + 100 + 5 + PLACEHOLDER_TOKENS + 20 + 10),
        reported=0,
        estimated_tail=pad_estimate(17 + 100 + 5 + PLACEHOLDER_TOKENS + 20 + 10),
        rough_tail=17 + 100 + 5 + PLACEHOLDER_TOKENS + 20 + 10,
        anchor="",
        basis="estimate",
    )


def test_a_clearing_inside_the_view_is_freed_and_not_forgotten():
    log = Log([result("c1", 308), reply(1, "a1", "m1"), edited(Cleared(("c1",)))])
    assert make_meter(log.view).size().freed == 300


def test_an_offloaded_result_counts_as_its_preview_until_it_is_cleared():
    meter = Meter()
    meter.add(result("c1", 508))
    assert meter.offload("c1", "p" * 400) == 408
    assert meter.size().rough_tail == 100
    assert meter.clear(["c1"]) == 92
    assert meter.offload("c1", "p" * 4_000) == 0
    assert meter.size().rough_tail == PLACEHOLDER_TOKENS


def test_a_result_offloaded_before_it_arrives_counts_as_its_preview():
    meter = Meter()
    meter.add(edited(Offloaded("c1", "/tmp/c1", "p" * 40, 2_000)))
    meter.add(result("c1", 500))
    assert meter.size().rough_tail == 10


def test_dropped_thinking_leaves_the_tail_from_the_named_record_on():
    meter = Meter()
    for record in (thought(70, "a1", "m1"), thought(20, "a2", "m2"), user(5), thought(30, "a3", "m3")):
        meter.add(record)
    meter.add(edited(ThinkingDropped(since="a2")))
    assert meter.size().rough_tail == 70 + 5
    assert meter.drop_thinking("nowhere") == 0
    assert meter.drop_thinking("a1") == 70


def test_thinking_dropped_before_the_anchor_is_freed():
    meter = Meter()
    meter.add(thought(70, "a1", "m1", USAGE))
    meter.add(edited(ThinkingDropped(since="a1")))
    assert (meter.size().tokens, meter.size().freed) == (4_321, 70)


def test_counts_of_the_provider_are_not_padded_and_shrink_when_cleared():
    meter = Meter(TokenCounter(ProviderCounts({"r": 500})))
    meter.add(result("c1", 308))
    meter.add(user(30))
    assert meter.size().tokens == 500 + 40
    meter.clear(["c1"])
    assert meter.size().tokens == 500 - (300 - 30)


# The law: what is kept up to date one record at a time equals the text of TOK-5, read anew over the list.

blocks = st.one_of(
    st.integers(0, 60).map(lambda size: text_block("x" * size)),
    st.tuples(st.sampled_from("cdefgh"), st.integers(0, 90)).map(lambda p: result_block(p[0], "y" * p[1])),
    st.integers(0, 60).map(lambda size: block_from_fields({"type": "thinking", "thinking": "z" * size})),
)
usages = st.one_of(
    st.none(), st.just(Usage()), st.builds(Usage, *[st.integers(0, 9_000)] * 4, cache_creation=st.none())
)


@st.composite
def one_record(draw: st.DrawFn) -> Record:
    kind = draw(st.sampled_from(["user", "assistant", "assistant", "assistant", "system", "progress"]))
    answer = ReplyMeta(
        message_id=draw(st.sampled_from(["", "m1", "m2", "m3", "m4"])),
        model=draw(st.sampled_from(["claude-opus-4-5"] * 4 + [SYNTHETIC])),
        usage=draw(usages),
    )
    return Record(
        kind=kind,  # type: ignore[arg-type]
        uuid="",
        blocks=tuple(draw(st.lists(blocks, max_size=3))),
        reply=answer if kind == "assistant" else None,
        api_error=draw(st.integers(0, 9)) == 0,
    )


def unique_results(records: list[Record]) -> list[Record]:
    """Every call answered once, every record its own uuid, as in any valid log."""
    answered: set[str] = set()
    unique: list[Record] = []
    for number, record in enumerate(records):
        kept: list[Block] = []
        for block in record.blocks:
            if not block.is_result or block.call not in answered:
                kept.append(block)
            answered.add(block.call) if block.is_result else None
        unique.append(
            Record(
                kind=record.kind,
                uuid=f"r{number}",
                blocks=tuple(kept),
                reply=record.reply,
                api_error=record.api_error,
            )
        )
    return unique


def shown(record: Record, cleared: set[str]) -> int:
    if record.kind in ("system", "progress") or (record.kind == "assistant" and record.api_error):
        return 0
    return sum(
        PLACEHOLDER_TOKENS if block.is_result and block.call in cleared else estimate_block(block)
        for block in record.blocks
    )


def walk_back(view: Sequence[Record], cleared: set[str], fixed: int) -> tuple[int, str]:
    """TOK-5 and TOK-6 as they are written: size and anchor."""
    for index in reversed(range(len(view))):
        newest = view[index]
        usage = reported_usage(newest)
        if newest.kind != "assistant" or usage is None:
            continue
        pieces = [
            place
            for place, record in enumerate(view)
            if record.kind == "assistant" and record.message_id == newest.message_id
        ]
        first = pieces[0] if newest.message_id else index
        total = (
            usage.input_tokens
            + usage.cache_creation_input_tokens
            + usage.cache_read_input_tokens
            + usage.output_tokens
        )
        return total + pad_estimate(sum(shown(record, cleared) for record in view[first + 1 :])), view[
            first
        ].uuid
    return pad_estimate(fixed + sum(shown(record, cleared) for record in view)), ""


@pytest.mark.spec("TOK-5", "TOK-6", "TOK-8")
@given(
    st.lists(one_record(), max_size=25).map(unique_results),
    st.lists(st.tuples(st.integers(0, 24), st.sampled_from("cdefgh")), max_size=6),
    st.integers(0, 500),
)
def test_measuring_step_by_step_equals_walking_back_over_the_whole_list(
    records: list[Record], clearings: list[tuple[int, str]], fixed: int
):
    meter = Meter()
    cleared: set[str] = set()
    for index, record in enumerate(records):
        meter.add(record)
        now = [call for moment, call in clearings if moment == index]
        cleared.update(now)
        meter.clear(now)
        size = measure_context(meter, overhead=None, preamble=fixed)
        assert (size.tokens, size.anchor) == walk_back(records[: index + 1], cleared, fixed)
        assert size.tokens == size.reported + size.estimated_tail


def test_the_sum_of_counts_is_a_count():
    assert TokenCount(1, 2) + TokenCount(3, 4) - TokenCount(1, 1) == TokenCount(3, 5)


def test_what_the_provider_deletes_is_freed_until_it_is_reported_and_comes_back_when_deletions_end():
    meter = Meter()
    meter.add(result("c1", 308))
    meter.add(reply(1, "a1", "m1"))
    meter.add(edited(CacheDeleted(("c1",))))
    assert (meter.size().freed, meter.size().next_request) == (308, meter.size().tokens - 308)
    meter.add(reply(1, "a2", "m2"))
    assert meter.size().freed == 0, "the report leaves out what was deleted"
    meter.add(edited(CacheDeletionsEnded()))
    assert meter.size().next_request == meter.size().tokens + 308


def test_a_deleted_result_that_is_cleared_comes_back_as_its_placeholder():
    meter = Meter()
    for record in (result("c1", 308), edited(CacheDeleted(("c1",))), reply(1, "a1", "m1")):
        meter.add(record)
    meter.add(edited(Cleared(("c1",))))
    assert meter.size().freed == 0
    meter.add(edited(CacheDeletionsEnded()))
    assert meter.size().freed == -PLACEHOLDER_TOKENS


def test_a_view_is_estimated_as_its_meter_does_pictures_included():
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA"}}
    view = b.compute_view(
        [b.user([picture, b.say("Look at this.")], uuid="u1"), b.assistant("Seen.", uuid="a1")]
    )
    found = estimate_view(view, TokenCounter())
    assert found == make_meter(view, TokenCounter()).estimate().tokens > 100


def test_an_estimate_of_a_view_adds_what_was_counted_to_what_is_guessed():
    view = Log([b.user("x" * 40, uuid="a"), b.assistant("y" * 40, id="m"), b.user("z", uuid="c")]).view
    counts = TokenCounter(ProviderCounts({"a": 700, "c": 30}))
    whole = estimate_view(view, counts)
    assert whole == make_meter(view, counts).estimate().tokens == 730 + pad_estimate(10)


def test_a_calibration_with_enough_samples_corrects_the_tail_instead_of_padding_it():
    meter = Meter()
    for record in (user(90), reply(50, "a1", "m1"), user(60), user(15)):
        meter.add(record)
    padded = measure_context(meter, overhead=None)
    sizes = [
        measure_context(meter, overhead=None, calibration=Calibration(1.2, samples)) for samples in (7, 8)
    ]
    corrected = ContextSize(
        tokens=4_321 + 90, reported=4_321, estimated_tail=90, rough_tail=75, anchor="a1", basis="usage"
    )
    assert sizes == [padded, corrected]


def test_an_overhead_that_is_known_is_used_instead_of_the_estimate_also_if_it_is_nothing():
    sizes = [metered([user(75)], preamble=30, overhead=overhead) for overhead in (None, 0, 900)]
    assert [(size.tokens, size.reported, size.rough_tail) for size in sizes] == [
        (140, 0, 105),
        (100, 0, 75),
        (1_000, 900, 75),
    ]


def test_the_usage_of_replies_under_an_undone_compaction_never_becomes_the_anchor():
    view = View([user(30), reply(60, "a1", "m1")], {}, shrunk=frozenset({"a1"}))
    assert make_meter(view).size() == ContextSize(
        tokens=120, reported=0, estimated_tail=120, rough_tail=90, anchor="", basis="estimate"
    )
    kept = View([user(30), reply(60, "a1", "m1")], {}, stale=frozenset({"a1"}))
    assert make_meter(kept).size() == make_meter(view).size()


def test_hiding_a_result_returns_the_tokens_saved_and_hiding_it_again_none():
    meter = Meter()
    meter.add(result("c1", 100))
    meter.add(result("c2", 50, "r2"))
    assert meter.offload("c1", "x" * 80) == 80
    assert meter.clear(["c1", "c2", "unknown"]) == (20 - 8) + (50 - 8)
    assert meter.clear(["c1"]) == 0
    assert meter.offload("c2", "x" * 400) == 0
    assert meter.size().rough_tail == 16


def test_a_preview_larger_than_its_result_costs_more():
    meter = Meter()
    meter.add(result("c1", 10))
    assert (meter.offload("c1", "x" * 80), meter.size().rough_tail) == (-10, 20)


@pytest.mark.parametrize(
    ("since", "until", "dropped"),
    [
        ("t1", "", 7),
        ("t2", "", 6),
        ("t1", "t2", 1),
        ("t1", "t3", 3),
        ("t2", "t3", 2),
        ("t3", "", 4),
        ("t2", "t2", 0),
        ("unknown", "", 0),
        ("t1", "unknown", 7),
    ],
)
def test_thinking_is_dropped_from_one_record_up_to_another_which_stays(since: str, until: str, dropped: int):
    meter, accounts = Meter(), Accounts()
    for at, uuid in enumerate(("t1", "t2", "t3")):
        record = thought(2**at, uuid, "m")
        meter.add(record)
        accounts.add(record)
    accounts.apply(ThinkingDropped(since=since, until=until))
    assert meter.drop_thinking(since, until) == dropped
    assert (meter.size().rough_tail, accounts.metrics().thinking) == (7 - dropped, 7 - dropped)


def test_the_next_request_is_expected_without_what_was_hidden_and_never_below_nothing():
    size = ContextSize(tokens=10, reported=10, estimated_tail=0, rough_tail=0, anchor="a", basis="usage")
    freed = (4, 10, 11, -3)
    assert [msgspec.structs.replace(size, freed=each).next_request for each in freed] == [6, 0, 0, 13]


def test_what_is_kept_counts_as_the_provider_has_counted_it():
    kept = [b.user("x" * 400, uuid="u1"), reply(30, "a1", "m1", Usage(input_tokens=170_000))]
    segment = KeptSegment("u1", "s", "a1")
    for counted, expected in ((0, pad_estimate(100 + 30 + 10)), (90, 90 + pad_estimate(10))):
        edit = Compacted(kept=segment, tokens_kept=counted)
        boundary = Record(kind="system", uuid="b", subtype="compact_boundary", edit=edit)
        summary = b.summary("y" * 40, uuid="s", parent="b")
        size = make_meter(Log([*kept, boundary, summary]).view).size()
        assert (size.tokens, size.basis) == (expected, "estimate")


@pytest.mark.parametrize("is_inside", [True, False])
def test_what_was_hidden_in_it_is_not_in_that_count_and_what_is_hidden_later_leaves_it(is_inside: bool):
    offloaded = edited(Offloaded("c1", "/tmp/c1", "p" * 80, 9_000), "e1")
    results = [result("c1", 9_000, "r1"), result("c2", 500, "r2")]
    kept = [*results, offloaded] if is_inside else [*results, edited(Cleared(()), "e0"), offloaded]
    # The edit is in the part that is kept, or behind it: then it is no record of the new view.
    segment = KeptSegment("r1", "s", "e1" if is_inside else "e0")
    edit = Compacted(kept=segment, tokens_kept=700)
    boundary = Record(kind="system", uuid="b", subtype="compact_boundary", edit=edit)
    said = [*kept, boundary, b.summary("y" * 40, uuid="s", parent="b")]
    assert make_meter(Log(said).view).size().tokens == 700 + pad_estimate(10)
    meter = make_meter(Log(said).view)
    meter.clear(["c1", "c2"])
    assert meter.size().tokens == 700 - (20 - PLACEHOLDER_TOKENS) - (500 - PLACEHOLDER_TOKENS) + 10


def test_a_calibration_corrects_what_is_guessed_and_not_what_the_provider_has_counted():
    edit = Compacted(kept=KeptSegment("u1", "s", "u1"), tokens_kept=900)
    boundary = Record(kind="system", uuid="b", subtype="compact_boundary", edit=edit)
    said = [user(700, "u1"), boundary, b.summary("y" * 400, uuid="s", parent="b")]
    found = measure_context(
        make_meter(Log(said).view), overhead=50, calibration=Calibration(ratio=2.0, samples=99)
    )
    assert (found.tokens, found.estimated_tail, found.rough_tail) == (50 + 900 + 200, 1_100, 1_000)
