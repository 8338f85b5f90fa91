"""Lines of ours that were changed, lost, doubled or moved are found; lines of others stay as they are."""

import json
from zlib import crc32

import pytest

from everturn.wire.line_repair import LineProblem
from everturn.wire.line_sums import (
    FileSums,
    TranscriptEnd,
    advance,
    check_end,
    check_sums,
    seal,
    seal_again,
    tag_state,
)

FOREIGN = b'{"type":"user","uuid":"theirs","message":{"role":"user","content":"theirs"}}'


def own(number: int) -> bytes:
    return json.dumps({"type": "user", "uuid": f"u{number}", "n": number}).encode()


def written(*lines: bytes) -> list[bytes]:
    """A file, line by line: ours sealed, the foreign one as it is."""
    state, done = 0, list[bytes]()
    for line in lines:
        sealed, state = (line, advance(state, line)) if line == FOREIGN else seal(line, b'"part":1,', state)
        done.append(sealed + b"\n")
        state = advance(state, b"\n")
    return done


FILE = written(own(1), own(2), FOREIGN, own(3), own(4))


def found_at(lines: list[bytes]) -> list[int]:
    return [problem.line for problem in check_sums(b"".join(lines)).problems]


def test_a_file_as_it_was_written_has_no_problem_and_its_lines_stay_json():
    assert check_sums(b"".join(FILE)).problems == ()
    tag = json.loads(FILE[0]).pop("everturnStore")
    assert (tag["part"], len(tag["sum"])) == (1, 8)


def test_a_bit_that_flips_before_the_last_line_is_found():
    data = b"".join(FILE)
    flipped = (data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] for at in range(len(b"".join(FILE[:-1]))))
    assert all(check_sums(each).problems for each in flipped)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param([FILE[1], *FILE[:1], *FILE[2:]], [1, 2, 3], id="swapped"),
        pytest.param([*FILE[:2], FILE[1], *FILE[2:]], [3], id="doubled"),
        pytest.param([*FILE[:1], *FILE[2:]], [2], id="missing"),
        pytest.param(FILE[1:], [1], id="without its beginning"),
        pytest.param([*FILE[:2], *FILE[3:]], [3], id="without the foreign line"),
        pytest.param(
            [*FILE[:2], FOREIGN.replace(b"theirs", b"others") + b"\n", *FILE[3:]], [3], id="foreign"
        ),
    ],
)
def test_each_place_of_damage_is_reported_once_with_its_line(lines: list[bytes], expected: list[int]):
    assert found_at(lines) == expected


def test_a_gap_of_several_lines_is_named_as_such():
    (problem,) = check_sums(
        b"".join([*FILE[:2], FOREIGN.replace(b"theirs", b"x") + b"\n", *FILE[3:]])
    ).problems
    assert (problem.kind, problem.what) == (
        "checksum",
        "lines 3 to 4 are not as written: something was changed, lost, doubled or moved here "
        "(the checksum differs)",
    )


def test_a_line_that_is_copied_to_another_file_gets_a_checksum_for_its_place_there():
    copied, state = seal_again(FILE[3].rstrip(b"\n"), 0)
    assert check_sums(copied) == (state, (), ())
    assert json.loads(copied)["everturnStore"]["part"] == 1
    assert seal_again(FOREIGN, 7) == (FOREIGN, advance(7, FOREIGN))


def test_a_checksum_within_a_value_of_the_line_is_none():
    quoted = json.dumps({"type": "user", "uuid": "u", "input": json.loads(FILE[0])}).encode()
    assert check_sums(quoted + b"\n" + quoted).problems == ()


DATA = b"".join(FILE)
END = TranscriptEnd(len(DATA), check_sums(DATA).state)


def problems_at_end(data: bytes, state: bytes) -> list[tuple[int, str, str]]:
    found = check_end(state, data, check_sums(data).state)
    return [(problem.line, problem.kind, problem.what) for problem in found]


def test_the_state_names_the_end_of_its_transcript_in_front_of_its_own_fields():
    tag = f'{{"everturnStore":{{"size":{END.size},"sum":{END.sum}}}'.encode()
    assert tag_state(b'{ "a":1}', END) == tag + b',"a":1}'
    assert tag_state(b"{}", END) == tag + b"}"
    assert tag_state(b"[1]", END) == b"[1]"


def test_a_transcript_that_ends_where_its_state_says_or_later_has_no_problem():
    state = tag_state(b'{"a":1}', END)
    more = written(own(1), own(2), FOREIGN, own(3), own(4), own(5))
    for data in (DATA, b"".join(more), DATA[:-1]):
        assert problems_at_end(data, state) == []


@pytest.mark.parametrize("state", [b"", b"{}", b"not json", b'{"everturnStore":7}'])
def test_a_state_that_does_not_say_where_the_transcript_ended_accuses_nobody(state):
    assert problems_at_end(DATA[:5], state) == []


def test_a_transcript_that_lost_its_end_is_reported_with_both_sizes():
    state = tag_state(b"{}", END)
    cut = b"".join(FILE[:-1])
    sizes = f"it has {len(cut):,} bytes, and had {len(DATA):,} when its state was written"
    what = f"the end of the file is missing: {sizes}"
    assert problems_at_end(cut, state) == [(4, "checksum", what)]
    missing = (
        f"the end of the file is missing: it has 0 bytes, and had {len(DATA):,} when its state was written"
    )
    assert problems_at_end(b"", state) == [(1, "checksum", missing)]


def test_last_lines_that_were_replaced_are_reported():
    state = tag_state(b"{}", END)
    forged = written(own(1), own(2), FOREIGN, own(3), own(9))
    what = "the last lines are not as written: their checksum differs"
    assert problems_at_end(b"".join(forged), state) == [(5, "checksum", what)]
    assert problems_at_end(b"".join([*forged, FILE[0]]), state) == [(6, "checksum", what)]
    # The last character may only be missing if it was the line break.
    assert problems_at_end(b"".join(forged)[:-1], state)[0][2].startswith("the end of the file is missing")


CHANGED = "as written: something was changed, lost, doubled or moved here (the checksum differs)"


def test_a_file_is_checked_with_the_places_of_its_damage_in_bytes():
    damaged = [FILE[0], FILE[1].replace(b'"n": 2', b'"n": 7'), *FILE[2:]]
    data = b"".join(damaged)
    sums = check_sums(data)
    ends = [data.index(b'"sum":"', sum(map(len, damaged[:at]))) + 7 for at in (0, 1)]
    what = f"this line is not {CHANGED}"
    assert sums == FileSums(
        check_sums(b"".join(FILE)).state, (LineProblem(2, "checksum", what),), ((ends[0] + 8, ends[1]),)
    )
    first = check_sums(FILE[0].replace(b'"n": 1', b'"n": 7'))
    assert (first.problems, first.damaged) == ((LineProblem(1, "checksum", what),), ((0, ends[0]),))


def test_a_tag_that_is_damaged_itself_is_none_and_the_bytes_count_for_the_next_one():
    damaged = [FILE[0], FILE[1].replace(b'"sum":"', b'"sum":"x'), *FILE[2:]]
    what = f"lines 2 to 4 are not {CHANGED}"
    assert check_sums(b"".join(damaged)).problems == (LineProblem(2, "checksum", what),)
    assert check_sums(b"").problems == check_sums(FOREIGN).problems == ()
    assert (check_sums(b"").state, check_sums(FOREIGN).state) == (0, advance(0, FOREIGN))


def test_a_line_is_sealed_with_its_numbers_and_the_sum_of_all_before_it():
    line, state = seal(b'{"a":1}', b'"part":2,', 7)
    covered = b'{"a":1,"everturnStore":{"part":2,"sum":"'
    assert line == covered + b"%08x" % crc32(covered, 7) + b'"}}'
    assert state == crc32(b'"}}', crc32(covered, 7))
    assert seal_again(line, 7) == (line, state)
    assert seal_again(line, 8) == seal(b'{"a":1}', b'"part":2,', 8)
