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
    assert needs(call("c", "Edit", **inputs)) == [("path", "src/shop.py"), ("line", OLD)]


def test_every_edit_of_many_is_traced_and_new_text_is_not():
    edits = [
        {"old_string": OLD, "new_string": "total = sum(all_prices_here)"},
        {"old_string": "return the_total", "new_string": ""},
    ]
    found = needs(call("c", "MultiEdit", edits=edits))
    assert found == [
        ("line", OLD),
        ("identifier", "all_prices_here"),
        ("line", "return the_total"),
        ("identifier", "the_total"),
    ]


def test_a_patch_needs_the_lines_that_it_removes_or_leaves():
    patch = (
        f"*** Begin Patch\n@@ def price\n before it stands this\n-{OLD}\n+total = 0 * price\n*** End Patch"
    )
    found = needs({"type": "tool_use", "id": "c", "name": "apply_patch", "input": patch})
    assert found == [("line", "before it stands this"), ("line", OLD)]


def test_the_head_of_a_diff_is_no_line_of_the_file():
    diff = (
        f"diff\n--- a/some/long/src/shop.py\n+++ b/some/long/src/shop.py\n@@ -1 +1 @@\n-{OLD}\n+total = 0\n"
    )
    assert list(dict.fromkeys(needs(call("c", "Patch", diff=diff)))) == [
        ("line", OLD),
        ("path", "src/shop.py"),
    ]


def test_a_text_quotes_in_fences_and_behind_marks():
    text = f"I looked.\n```python\n{OLD}\n```\nnot quoted, though long enough\n> the user said exactly this\n"
    assert needs(say(text)) == [("line", OLD), ("line", "the user said exactly this")]


def test_thinking_neither_needs_nor_holds():
    block = block_from_fields(think("src/shop.py has parse_line"))
    assert (list(find_needs(block)), block_text(block)) == ([], "")


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
