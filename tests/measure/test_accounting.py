"""What fills a context, by tool, by speaker and by files read again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everturn.history.blocks import Block, block_from_fields, result_block, text_block
from everturn.history.edits import Cleared, Compacted, KeptSegment, Offloaded, ThinkingDropped
from everturn.history.log import Log
from everturn.history.records import Record
from everturn.measure.accounting import Accounts, Metrics, RepeatedRead, Shares, accounts_of
from everturn.measure.meter import PLACEHOLDER_TOKENS
from everturn.measure.tokens import estimate_block
from everturn.measure.tool_table import DEFAULT_TOOL_TABLE, ToolEntry


def text(tokens: int, prefix: str = "") -> Block:
    return text_block(prefix + "x" * (4 * tokens - len(prefix)))


def call(call_id: str, tool: str, **arguments: str) -> Block:
    return block_from_fields({"type": "tool_use", "id": call_id, "name": tool, "input": arguments})


def result(call_id: str, tokens: int) -> Block:
    return result_block(call_id, "x" * 4 * tokens)


def said(kind: str, *blocks: Block, **fields: object) -> Record:
    return Record(kind=kind, uuid=f"{kind}{id(blocks)}", blocks=blocks, **fields)  # type: ignore[arg-type]


def accounted(*records: Record) -> Metrics:
    accounts = Accounts()
    for record in records:
        accounts.add(record)
    return accounts.metrics()


@pytest.mark.spec("TOK-9")
def test_every_block_is_entered_under_its_category():
    read, bash = call("c1", "Read", file_path="/a"), call("c2", "Bash", command="ls -la")
    attachment = block_from_fields({"type": "task_reminder", "content": "do"})
    thinking = block_from_fields({"type": "thinking", "thinking": "t" * 40, "signature": "s" * 900})
    image = block_from_fields({"type": "image", "source": {"type": "url", "url": "u"}})
    metrics = accounted(
        said("user", text(11), image),
        said("user", text(20, "<local-command-stdout>")),
        said("user", text(40), meta=True),
        said("user", text(50), compact_summary=True),
        said("assistant", thinking, text(13), read, bash),
        said("user", result("c1", 100), result("c2", 30), result("gone", 5)),
        said("attachment", Block("attachment", attachment.raw), subtype="task_reminder"),
        said("attachment", Block("attachment", attachment.raw), subtype="task_reminder"),
        said("attachment", Block("attachment", attachment.raw), subtype="hook_success", display_only=True),
        said("system", text(1_000)),
    )
    reminder = estimate_block(attachment)
    assert metrics == Metrics(
        tool_requests={"Read": estimate_block(read), "Bash": estimate_block(bash)},
        tool_results={"Read": 100, "Bash": 30, "unknown": 5},
        human=11,
        assistant=13,
        local_output=20,
        other=10 + 2_000 + 90 + 2 * reminder,
        thinking=10,
        images=2_000,
        injected=90,
        attachments={"task_reminder": 2},
        duplicate_reads={},
    )


@pytest.mark.spec("TOK-9")
@given(st.lists(st.tuples(st.sampled_from(["user", "assistant", "system"]), st.integers(1, 50)), max_size=20))
def test_the_total_is_the_sum_of_all_that_is_sent(parts: list[tuple[str, int]]):
    records = [said(kind, text(size), result(f"c{n}", size)) for n, (kind, size) in enumerate(parts)]
    metrics = accounted(*records)
    assert metrics.total == sum(2 * size for kind, size in parts if kind != "system")


@pytest.mark.spec("TOK-10")
def test_all_but_one_of_the_reads_of_a_file_are_waste():
    metrics = accounted(
        said("assistant", *[call(f"a{n}", "Read", file_path="/a") for n in range(3)]),
        said("assistant", call("b", "read_file", path="/b"), call("g", "Grep", path="/a")),
        said("user", *[result(f"a{n}", tokens) for n, tokens in enumerate((50, 100, 51))]),
        said("user", result("b", 70), result("g", 70)),
    )
    assert metrics.duplicate_reads == {"/a": RepeatedRead(count=3, total=201)}
    assert (metrics.wasted, metrics.files_read_again) == (67 * 2, 1)


@pytest.mark.spec("TOK-10")
@given(st.lists(st.integers(0, 5_000), min_size=2, max_size=9))
def test_the_waste_follows_the_formula(sizes: list[int]):
    read = RepeatedRead(len(sizes), sum(sizes))
    assert read.wasted == int(sum(sizes) / len(sizes)) * (len(sizes) - 1)


@pytest.mark.spec("TOK-10")
def test_an_editor_reads_a_file_only_when_it_views_it():
    editor = "str_replace_based_edit_tool"
    metrics = accounted(
        said("assistant", *[call(f"v{n}", editor, command="view", path="/a") for n in range(2)]),
        said("assistant", *[call(f"e{n}", editor, command="create", path="/b") for n in range(2)]),
        said("assistant", block_from_fields({"type": "tool_use", "id": "o", "name": "Read", "input": 7})),
        said("user", *[result(name, 10) for name in ("v0", "v1", "e0", "e1", "o")]),
    )
    assert metrics.duplicate_reads == {"/a": RepeatedRead(2, 20)}


@pytest.mark.spec("TOK-11")
def test_the_shares_are_percent_of_the_total_rounded():
    reads = [call(f"r{n}", "Read", file_path="/a") for n in range(2)]
    asked = 2 * estimate_block(reads[0])
    metrics = accounted(
        said("user", text(250)),
        said("user", text(50, "<local-command-stdout>")),
        said("assistant", text(125), *reads),
        said("user", result("r0", 200), result("r1", 201)),
        said("user", text(374 - asked), meta=True),
    )
    assert metrics.total == 1_200
    assert metrics.shares == Shares(
        human=21,
        assistant=10,
        local_output=4,
        tool_requests=round(asked / 12),
        tool_results=33,
        duplicate_reads=17,
    )


@pytest.mark.spec("TOK-11")
def test_an_empty_view_divides_nothing():
    nothing = accounted()
    assert (nothing.total, nothing.wasted, nothing.files_read_again) == (0, 0, 0)
    assert nothing.shares == Shares(
        human=0, assistant=0, local_output=0, tool_requests=0, tool_results=0, duplicate_reads=0
    )


def test_the_accounts_of_a_view_know_what_was_hidden_before_it():
    asked = call("c1", "Bash", command="ls"), call("c2", "Read", file_path="/a")
    log = Log(
        [
            said("user", text(900)),
            Record(kind="assistant", uuid="a", blocks=asked),
            Record(kind="user", uuid="r", blocks=(result("c1", 300), result("c2", 300))),
            Record(kind="system", uuid="e1", edit=Cleared(("c1",))),
            Record(kind="system", uuid="e2", edit=Offloaded("c2", "/tmp/c2", "p" * 80, 1_200)),
            Record(
                kind="system",
                uuid="b",
                subtype="compact_boundary",
                edit=Compacted(kept=KeptSegment("a", "s", "r")),
            ),
            Record(kind="user", uuid="s", compact_summary=True, blocks=(text(100),)),
        ]
    )
    metrics = accounts_of(log.view).metrics()
    assert (metrics.human, metrics.injected) == (0, 100)
    assert metrics.tool_results == {"Bash": PLACEHOLDER_TOKENS, "Read": 20}


def test_an_offloaded_read_counts_as_its_preview_and_still_repeats_the_file():
    accounts = Accounts()
    accounts.add(said("assistant", *[call(f"r{n}", "Read", file_path="/a") for n in range(2)]))
    accounts.add(said("user", result("r0", 100), result("r1", 100)))
    accounts.add(said("system", edit=Offloaded("r0", "/tmp/r0", "p" * 40, 400)))
    assert accounts.metrics().duplicate_reads == {"/a": RepeatedRead(2, 110)}
    accounts.clear(["r0"])
    accounts.apply(Offloaded("r0", "/tmp/r0", "p" * 40, 400))
    metrics = accounts.metrics()
    assert (metrics.duplicate_reads, metrics.tool_results) == ({}, {"Read": 100 + PLACEHOLDER_TOKENS})


def test_dropped_thinking_is_no_longer_entered():
    accounts = Accounts()
    for name, tokens in (("a1", 70), ("a2", 0), ("a3", 20), ("a4", 5)):
        block = block_from_fields({"type": "thinking", "thinking": "t" * 4 * tokens})
        accounts.add(Record(kind="assistant", uuid=name, blocks=(block, block) if tokens else (text(5),)))
    accounts.apply(ThinkingDropped(since="nowhere"))
    assert accounts.metrics().thinking == 190
    accounts.apply(ThinkingDropped(since="a4"))
    assert accounts.metrics().thinking == 180
    accounts.add(said("system", edit=ThinkingDropped(since="a2")))
    assert accounts.metrics().thinking == 140


def test_a_cleared_read_shrinks_to_its_placeholder_and_no_longer_repeats_the_file():
    reads = [call(f"r{n}", "Read", file_path="/a") for n in range(3)]
    records = [
        said("assistant", *reads),
        said("user", *[result(f"r{n}", 100) for n in range(3)]),
        Record(kind="system", uuid="x", edit=Cleared(("r0", "r0"))),
    ]
    accounts = Accounts()
    for record in records:
        accounts.add(record)
    accounts.clear(["r0"])
    metrics = accounts.metrics()
    assert metrics.tool_results == {"Read": 200 + PLACEHOLDER_TOKENS}
    assert metrics.duplicate_reads == {"/a": RepeatedRead(2, 200)}


def test_a_result_that_arrives_after_its_clearing_is_a_placeholder():
    accounts = Accounts()
    accounts.clear(["c"])
    accounts.add(said("assistant", call("c", "Bash", command="ls")))
    accounts.add(said("user", result("c", 500)))
    assert accounts.metrics().tool_results == {"Bash": PLACEHOLDER_TOKENS}


@pytest.mark.spec("TOK-10", "MC-18")
def test_a_note_that_a_file_is_unchanged_is_not_another_read_of_it():
    note = result_block("a1", "File unchanged since last read. Refer to the earlier result.")
    metrics = accounted(
        said("assistant", *[call(f"a{n}", "Read", file_path="/a") for n in range(2)]),
        said("user", result("a0", 5_000), note),
    )
    assert metrics.duplicate_reads == {}


def test_results_without_their_calls_are_no_reads_of_a_file():
    metrics = accounted(said("user", result("gone", 5), result("lost", 7)))
    assert (metrics.tool_results, metrics.duplicate_reads) == ({"unknown": 12}, {})


def test_the_accounts_of_a_view_know_the_tools_that_a_user_has_added():
    records = []
    for at in range(2):
        records.append(said("assistant", call(f"c{at}", "fetch_it", name="/a")))
        records.append(said("user", result(f"c{at}", 10)))
    mine = DEFAULT_TOOL_TABLE.extended([ToolEntry(names=("fetch_it",), does="reads", path=("name",))])
    view = Log(records).view
    assert accounts_of(view).metrics().duplicate_reads == {}
    assert accounts_of(view, tools=mine).metrics().duplicate_reads == {"/a": RepeatedRead(2, 20)}
