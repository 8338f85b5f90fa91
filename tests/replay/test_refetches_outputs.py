"""Where in an output a use can stand, and what a block says."""

import pytest
from builders import answer, assistant, attachment, call, say, think, user

from everturn.history.blocks import block_from_fields
from everturn.replay.refetches.outputs import OLD_TEXT, block_text, find_needs, strings_in

OLD = "total = price * count"


def needs(fields):
    return list(find_needs(block_from_fields(fields)))


@pytest.mark.parametrize("key", sorted(OLD_TEXT))
def test_the_old_text_of_an_edit_is_traced_line_by_line(key):
    inputs = {"file_path": "src/shop.py", key: f"{OLD}\n    x\n"}
    assert needs(call("c", "Edit", **inputs)) == [("argument", "src/shop.py"), ("partial", OLD)]


def test_every_edit_of_many_is_traced_and_short_new_text_is_not():
    edits = [
        {"old_string": OLD, "new_string": "total = sum(all_prices_here)"},
        {"old_string": "return the_total", "new_string": ""},
    ]
    found = needs(call("c", "MultiEdit", edits=edits))
    assert found == [("partial", OLD), ("name", "all_prices_here"), ("partial", "return the_total")]


def test_a_patch_needs_the_lines_that_it_removes_or_leaves():
    patch = (
        f"*** Begin Patch\n@@ def price\n before it stands this\n-{OLD}\n+total = 0 * price\n*** End Patch"
    )
    found = needs({"type": "tool_use", "id": "c", "name": "apply_patch", "input": patch})
    assert found == [("old_text", "before it stands this"), ("old_text", OLD)]


def test_the_head_of_a_diff_is_no_line_of_the_file():
    diff = (
        f"diff\n--- a/some/long/src/shop.py\n+++ b/some/long/src/shop.py\n@@ -1 +1 @@\n-{OLD}\n+total = 0\n"
    )
    assert needs(call("c", "Patch", diff=diff)) == [("old_text", OLD)]


def test_a_text_quotes_in_fences_and_behind_marks():
    long_line = "the user said exactly this, word for word"
    text = (
        f"I looked.\n```python\n{OLD} * (1 + vat)\n```\nnot quoted, though it is long enough\n> {long_line}\n"
    )
    assert needs(say(text)) == [("quoted", long_line)]


@pytest.mark.spec("RP-14")
def test_thinking_needs_what_it_repeats_and_holds_nothing():
    line = "total = price * count + shipping_of(order)"
    block = block_from_fields(think(f"src/shop.py has\n{line}"))
    found = [("quoted", line), ("file", "src/shop.py"), ("name", "shipping_of")]
    assert (list(find_needs(block)), block_text(block)) == (found, "")


@pytest.mark.spec("RP-14")
def test_where_and_for_what_a_search_looks_and_ids_in_written_content_are_no_uses():
    assert needs(call("c", "Grep", pattern="parse_line|read_line", path="src/shop.py")) == []
    assert needs(call("c", "Glob", pattern="**/src/shop.py")) == []
    assert needs(call("c", "Grep", pattern="3f2a1bc77")) == [("id", "3f2a1bc77")]
    written = {"file_path": "a.py", "content": "commit 3f2a1bc77"}
    assert needs(call("c", "Write", **written)) == []
    assert needs(call("c", "Bash", command="git show 3f2a1bc77")) == [("id", "3f2a1bc77")]


@pytest.mark.spec("RP-14")
def test_the_items_of_a_task_list_are_no_copied_lines():
    line = "Count only the lines that were changed, not all of them"
    assert needs(call("c", "TodoWrite", todos=[{"content": line, "status": "pending"}])) == []
    assert needs(call("c", "Write", file_path="a.md", content=line)) == [("copied", line)]


def test_strings_are_found_however_deep_and_keys_are_none():
    value = {"a": ["one", {"b": "two"}], "c": 3, "d": "three"}
    assert list(strings_in(value)) == [("a", "one"), ("b", "two"), ("d", "three")]
    deep: object = "bottom"
    for _ in range(5_000):
        deep = [deep]
    assert list(strings_in(deep)) == [("", "bottom")]


def test_a_block_says_its_text_its_inputs_or_its_result():
    said = [
        *user([answer("c", [say("one"), say("two")])]).blocks,
        *assistant("three", call("d", "Bash", command="four", more=["five"])).blocks,
        *attachment("six").blocks,
    ]
    assert [block_text(block) for block in said] == ["one\ntwo", "three", "four\nfive", "six"]


@pytest.mark.parametrize(
    "line",
    [
        '"github.com/someone/project/internal/tools"',
        "from everturn.replay.refetches import sample_of_everything",
        "import { something, other } from './here/and/there'",
    ],
)
def test_a_line_that_only_imports_is_no_quotation_but_can_be_replaced(line):
    assert ("quoted", line) not in needs(think(line))
    assert ("copied", line) not in needs(call("c", "Write", file_path="a.py", content=line))
    assert ("partial", line) in needs(call("c", "Edit", file_path="a.py", old_string=line))
