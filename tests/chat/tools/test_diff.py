import time
from difflib import unified_diff

from hypothesis import given
from hypothesis import strategies as st

from everturn.chat.tools.files.diff import MAX_COMPARED_LINES, FileDiff, diff_texts

LINES = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "d\n", "e\n"]), max_size=30).map("".join)


@given(LINES, LINES)
def test_a_difference_is_what_difflib_says_of_the_whole_texts_or_as_short(old, new):
    ours = diff_texts("f", old, new)
    theirs = list(unified_diff(old.splitlines(keepends=True), new.splitlines(keepends=True)))[2:]
    assert ours.added - ours.removed == new.count("\n") - old.count("\n")
    assert _applied(ours.text, old) == new
    assert ours.added <= 2 * sum(line.startswith("+") for line in theirs) + 2


def _applied(diff, old):
    """What a patch makes of a text, by its line numbers alone."""
    lines, made, at = old.splitlines(keepends=True), [], 0
    for line in diff.splitlines(keepends=True)[2:]:
        if line.startswith("@@"):
            first, _, count = line.split()[1][1:].partition(",")
            start = int(first) - (count != "0")
            made += lines[at:start]
            at = start
        elif line[0] == "+":
            made.append(line[1:])
        else:
            assert lines[at] == line[1:]
            made += [line[1:]] if line[0] == " " else []
            at += 1
    return "".join(made + lines[at:])


def test_numbers_count_from_the_beginning_of_the_file():
    old = "".join(f"{n}\n" for n in range(1, 101))
    assert diff_texts("f", old, old.replace("50\n", "fifty\n")) == FileDiff(
        "--- f\n+++ f\n@@ -47,7 +47,7 @@\n 47\n 48\n 49\n-50\n+fifty\n 51\n 52\n 53\n", 1, 1
    )


def test_a_missing_line_end_is_said():
    assert diff_texts("f", "a", "a\n").text.endswith("-a\n\\ No newline at end of file\n+a\n")


def test_a_large_rewrite_is_shown_quickly_as_old_and_new():
    old = "".join(f"{n % 7}\n" for n in range(20 * MAX_COMPARED_LINES))
    began = time.perf_counter()
    made = diff_texts("f", old, old[::-1])
    assert time.perf_counter() - began < 2
    assert made.removed > MAX_COMPARED_LINES
