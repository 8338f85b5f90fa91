"""The extension outside the public API: deletion of cached tool results by reference."""

import pytest
from conformance.api import FIVE, Api, Json, assistant, call, long, marked, result, tool, user

pytestmark = pytest.mark.spec("TW-7")
WORDS = "seen " * 300


def turns(n: int = 3, *, references: bool = True) -> list[Json]:
    said = [user(long("a"))]
    for i in range(n):
        reference = {"cache_reference": f"t{i}"} if references else {}
        said += [assistant(call(f"t{i}")), user(result(f"t{i}", WORDS, **reference))]
    return said


def deleting(said: list[Json], *references: str) -> list[Json]:
    edits = {"type": "cache_edits", "edits": [{"type": "delete", "cache_reference": r} for r in references]}
    return [*said[:-1], {**said[-1], "content": [*said[-1]["content"], edits]}]


def last_marked(said: list[Json]) -> list[Json]:
    content = said[-1]["content"]
    return [*said[:-1], {**said[-1], "content": [marked(content[0]), *content[1:]]}]


TOOLS: Json = {"tools": [tool()]}


def test_it_is_off_by_default(api: Api):
    assert "cache_reference" in api.refused(*turns(), **TOOLS)
    assert api.ask(*deleting(turns(references=False), "t0"), **TOOLS).status == 400


def test_without_deletions_nothing_is_deleted(extended: Api):
    assert extended.usage(*turns(), **TOOLS)["cache_deleted_input_tokens"] == 0


def test_a_deletion_keeps_the_prefix_and_takes_the_tokens(extended: Api):
    warm = last_marked(turns())
    written = extended.usage(*warm, **TOOLS)["cache_creation_input_tokens"]
    usage = extended.usage(*deleting(warm, "t0"), **TOOLS)
    assert usage["cache_deleted_input_tokens"] > 300
    assert usage["cache_read_input_tokens"] + usage["cache_deleted_input_tokens"] >= written
    assert usage["cache_creation_input_tokens"] == 0


def test_deleted_tokens_are_cumulative(extended: Api):
    warm = last_marked(turns())
    extended.usage(*warm, **TOOLS)
    one = extended.usage(*deleting(warm, "t0"), **TOOLS)["cache_deleted_input_tokens"]
    two = extended.usage(*deleting(warm, "t0", "t1"), **TOOLS)["cache_deleted_input_tokens"]
    assert one < two
    assert abs(two - 2 * one) <= 4


def test_an_unknown_reference_is_refused(extended: Api):
    assert "nothing" in extended.refused(*deleting(turns(), "nothing"), **TOOLS)


def test_a_pinned_edit_sent_again_reads_on(extended: Api):
    pinned = deleting(last_marked(turns()), "t0")
    extended.usage(*last_marked(turns()), **TOOLS)
    extended.usage(*pinned, **TOOLS)
    later = [*pinned, assistant("so"), user(long("next", 200, FIVE))]
    usage = extended.usage(*later, **TOOLS)
    assert usage["cache_read_input_tokens"] > 0
    assert usage["cache_deleted_input_tokens"] > 300


def test_the_public_api_is_unchanged_with_it(extended: Api):
    usage = extended.usage(user(long("a", marker=FIVE)))
    assert usage["cache_creation_input_tokens"] > 512
    assert extended.usage(user(long("a", marker=FIVE)))["cache_creation_input_tokens"] == 0
