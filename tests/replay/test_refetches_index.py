"""Hand-made conversations whose every use is known."""

import pickle

import pytest
from builders import assistant, boundary, call, result, say, summary, think, user

from everturn.history.threads import Thread
from everturn.measure.tokens import estimate_block
from everturn.replay.refetches import index_threads
from everturn.replay.refetches.index import CallUses, HeldBlock

OLD = "total = price * count"


def indexed(*records, agent=""):
    return index_threads([Thread(agent, records)])


def shop(*more):
    return (
        user("Fix the price in src/shop.py.", uuid="u"),
        assistant(call("c1", "Read", file_path="/app/src/shop.py"), id="m1", uuid="a1"),
        result("c1", f"1\tdef price():\n2\t    {OLD}", uuid="r1"),
        assistant("On it.", id="m2", uuid="a2"),
        assistant(call("c2", "Edit", file_path="/app/src/shop.py", old_string=OLD), id="m2", uuid="a3"),
        result("c2", "done", uuid="r2"),
        *more,
    )


def test_a_conversation_is_indexed_as_a_whole():
    records = shop()
    uses = indexed(*records).thread("")
    said = [block for record in records for block in record.blocks]
    file = "src/shop.py"
    assert uses.strings == (("argument", file), ("partial", OLD))
    assert uses.holders == ((0, 1, 4), (2, 4))
    assert uses.calls == (CallUses(1, 1, (0,), (file,)), CallUses(2, 3, (0, 1), (), ((1, file),)))
    assert uses.numbers == {"a1": 1, "a2": 2, "a3": 2}
    assert uses.blocks == (
        HeldBlock("u:0", estimate_block(said[0]), (0,)),
        HeldBlock("a1:0", estimate_block(said[1]), (0,), file=file, is_own=True),
        HeldBlock("r1:0", estimate_block(said[2]), (1,), "c1", file),
        HeldBlock("a2:0", 0, (), is_prose=True, is_own=True),
        HeldBlock("a3:0", estimate_block(said[4]), (0, 1), file=file, is_own=True),
        HeldBlock("r2:0", 0, (), "c2", file),
    )


def test_what_was_never_shown_before_is_no_use():
    uses = indexed(user("Go.", uuid="u"), assistant("Made `new_name` in src/new.py.", id="m1")).thread("")
    assert uses.uses_of(1) == ()


def test_a_name_is_a_use_while_at_most_three_earlier_blocks_have_it():
    records = [user("Go.", uuid="u")]
    for at in range(6):
        records += [assistant(call(f"c{at}", "Bash", command="x"), say("See parse_line."), id=f"m{at}")]
        records += [result(f"c{at}", "parse_line", uuid=f"r{at}")]
    records[1] = assistant(call("c0", "Bash", command="x"), id="m0")
    uses = indexed(*records).thread("")
    held_by = [len(uses.uses_of(call.number)) for call in uses.calls]
    assert held_by == [0, 1, 1, 1, 0, 0]


@pytest.mark.spec("RP-14")
@pytest.mark.parametrize(
    "said",
    [
        say(f"I wrote:\n```python\n{OLD} * (1 + value_added_tax)\n```"),
        say("It is price_with_tax."),
        say("It is in src/tax.py."),
        call("c2", "Read", file_path="src/tax.py"),
    ],
    ids=["a line", "a name", "a file", "what is opened"],
)
def test_what_the_agent_wrote_itself_first_is_no_use_even_if_a_result_shows_it_later(said):
    code = f"def price_with_tax():\n    {OLD} * (1 + value_added_tax)"
    uses = indexed(
        user("Go.", uuid="u"),
        assistant(call("c1", "Write", file_path="src/tax.py", content=code), id="m1", uuid="a1"),
        result("c1", f"src/tax.py\n{code}", uuid="r1"),
        assistant(said, id="m2", uuid="a2"),
    ).thread("")
    assert uses.uses_of(2) == ()


@pytest.mark.spec("RP-14")
def test_a_line_of_many_files_is_the_usual_way_to_write_it():
    line = "settings, err := load(context, options)"
    records = [user("Go.", uuid="u")]
    for at in range(5):
        records += [assistant(call(f"c{at}", "Read", file_path=f"src/s{at}.go"), id=f"m{at}")]
        records += [result(f"c{at}", line, uuid=f"r{at}")]
    write = call("w", "Write", file_path="src/new.go", content=line)
    used = [
        indexed(*records[: 1 + 2 * read], assistant(write, id="m", uuid="a")).thread("").uses_of(read + 1)
        for read in (1, 3, 4)
    ]
    assert used == [(("copied", line),), (("copied", line),), ()]


def test_paths_and_lines_are_uses_however_many_blocks_have_them():
    asked = {"file_path": "src/shop.py", "old_string": OLD}
    records = [user(f"src/shop.py\n{OLD}", uuid="u")]
    for at in range(6):
        records += [assistant(call(f"c{at}", "Edit", **asked), id=f"m{at}", uuid=f"a{at}")]
        records += [result(f"c{at}", "nothing", uuid=f"r{at}")]
    uses = indexed(*records).thread("")
    assert [len(each.uses) for each in uses.calls] == [2] * 6


def test_pieces_of_a_response_do_not_use_results_recorded_between_them():
    uses = indexed(
        user("Go.", uuid="u"),
        assistant(call("c1", "Bash", command="ls"), id="m1", uuid="a1"),
        result("c1", "src/shop.py", uuid="r1"),
        assistant(call("c2", "Bash", command="cat src/shop.py"), id="m1", uuid="a2"),
        result("c2", "text", uuid="r2"),
    ).thread("")
    assert uses.calls == (CallUses(1, 1, ()),)
    assert uses.numbers == {"a1": 1, "a2": 1}


def test_replies_without_an_id_are_told_apart_by_what_answers_them():
    uses = indexed(
        user("Go.", uuid="u"),
        assistant("One", id="", uuid="a1"),
        assistant("and on.", id="", uuid="a2"),
        user("Yes.", uuid="v"),
        assistant("Two.", id="", uuid="a3"),
    ).thread("")
    assert uses.numbers == {"a1": 1, "a2": 1, "a3": 2}


def test_a_recorded_summary_thinking_and_a_synthetic_reply_are_nothing_to_trace_to():
    uses = indexed(
        boundary("b"),
        summary("It was about other_name in src/old.py.", uuid="s"),
        assistant(think("perhaps third_name"), id="m1", uuid="a1"),
        assistant("No response requested for third_name.", id="x", uuid="a2", model="<synthetic>"),
        assistant("So other_name, src/old.py.", id="m2", uuid="a3"),
    ).thread("")
    assert uses.numbers == {"a1": 1, "a3": 2}
    assert uses.uses_of(2) == ()


def test_agents_are_indexed_apart_and_an_unknown_one_is_named():
    both = index_threads([Thread("", shop()), Thread("a7", (user("src/shop.py", uuid="w"),))])
    assert [thread.agent for thread in both.threads] == ["", "a7"]
    assert both.thread("a7") is both.thread(1)
    with pytest.raises(LookupError, match=r"No conversation of agent 'b' found. Known agents: '', 'a7'"):
        both.thread("b")


def test_an_index_travels_and_is_made_equal_twice():
    uses = indexed(*shop())
    assert pickle.loads(pickle.dumps(uses)) == uses == indexed(*shop())


def test_blocks_are_counted_by_whoever_charges_for_them():
    uses = index_threads([Thread("", shop())], count=lambda block: 7).thread("")
    assert [block.tokens for block in uses.blocks] == [7, 7, 7, 0, 7, 0]


def test_the_working_folder_stands_in_every_head():
    uses = indexed(user("Go.", uuid="u", cwd="/home/me/app"), assistant(say("In /home/me/app."), id="m1"))
    assert uses.thread("").always == "/home/me/app"
