"""Lines that are not what they should be: the readable copy, and what had to be done for it."""

import pytest

from everturn.wire.line_repair import LineProblem, RepairedLine, describe_problems, is_json, repair_line


@pytest.mark.parametrize(
    ("raw", "mended"),
    [
        (b"", RepairedLine((), ())),
        (b"  \r", RepairedLine((), ())),
        (b"\xef\xbb\xbf", RepairedLine((), ())),
        (b'\xef\xbb\xbf{"a":1}', RepairedLine((b'{"a":1}',), ())),
        (b"// hi", RepairedLine((), (LineProblem(7, "comment", "a comment, kept and not read"),))),
        (
            b'{"a":-Infinity,"b":"Infinity"}',
            RepairedLine(
                (b'{"a":"not a number","b":"Infinity"}',),
                (LineProblem(7, "number", "values that JSON does not allow (NaN, Infinity): 1"),),
            ),
        ),
        (
            b'{"a":NaN,"b":"NaN"}',
            RepairedLine(
                (b'{"a":"not a number","b":"NaN"}',),
                (LineProblem(7, "number", "values that JSON does not allow (NaN, Infinity): 1"),),
            ),
        ),
        (
            b'{"a":"\\udc00"}',
            RepairedLine(
                (b'{"a":"\\ufffd"}',),
                (LineProblem(7, "surrogate", "unpaired surrogates, shown as U+FFFD: 1"),),
            ),
        ),
        (
            b'{"a":1} {"b":2}',
            RepairedLine((b'{"a":1}', b'{"b":2}'), (LineProblem(7, "glued", "2 objects on one line"),)),
        ),
        (
            b'\0\0{"a":1}\0',
            RepairedLine(
                (b'{"a":1}',), (LineProblem(7, "hole", "3 NUL bytes, typical after a file system crash"),)
            ),
        ),
        (
            b"plain words",
            RepairedLine(
                (),
                (
                    LineProblem(
                        7,
                        "not_json",
                        "11 characters that are not a JSON object: 'plain words'; kept, not read",
                    ),
                ),
            ),
        ),
    ],
)
def test_each_damage_has_its_cure_and_its_name(raw: bytes, mended: RepairedLine):
    assert repair_line(raw, 7, is_last=False) == mended


def test_numbers_of_any_length_do_not_hide_objects_on_one_line():
    long = b'{"a":' + b"7" * 5_000 + b"}"
    assert repair_line(long + b'{"b":2}', 7, is_last=False) == RepairedLine(
        (long, b'{"b":2}'), (LineProblem(7, "glued", "2 objects on one line"),)
    )


def test_an_unfinished_object_is_torn_at_the_end_of_the_file_and_no_json_elsewhere():
    kinds = [repair_line(b'{"a":"b', 1, is_last=is_last).flaws[0].kind for is_last in (True, False)]
    assert kinds == ["torn", "not_json"]


def test_text_is_judged_as_json_or_not():
    assert [is_json(raw) for raw in (b'{"a":1}', b'{"a":1', b"\xff", b"[1]")] == [True, False, False, True]


def test_what_stands_on_the_two_sides_of_a_hole_is_never_put_together():
    """Two lines of one write, of which the pages in between were lost: a record that nobody wrote."""
    found = repair_line(b'{"parent":null,"a":1,' + b"\0" * 64 + b'"uuid":"2","b":1}', 7, is_last=False)
    assert found.objects == ()
    assert [flaw.kind for flaw in found.flaws] == ["hole", "not_json", "not_json"]


def test_problems_are_told_by_line():
    problems = (LineProblem(3, "shape", "odd"), LineProblem(9, "not_json", "cut"))
    assert describe_problems(problems) == ("line 3: odd", "line 9: cut")
