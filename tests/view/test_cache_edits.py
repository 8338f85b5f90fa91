"""References that results carry, and the blocks that delete by them, as the twin's extension takes them."""

import json

import pytest
from builders import answer, assistant, call, edited, result, user
from twin.asking import Desk
from view.talks import PARAMETERS, tool

from everturn.history.blocks import block_from_json
from everturn.history.edits import CacheDeleted
from everturn.history.records import Record
from everturn.measure.outline import Preamble
from everturn.measure.prefix_cache import Breakpoint
from everturn.twin.options import TwinOptions
from everturn.view.breakpoints import BlockLocation, Breakpoints
from everturn.view.cache_edits import References, edits_block, with_cache_reference
from everturn.view.flatten import Flattener
from everturn.view.forks import CapturedRequest
from everturn.view.requests import build_request

EXTENDED = TwinOptions(min_cache={"claude-opus-5": 0}, extensions=frozenset({"cache_edits"}))
TALK = [
    user("go"),
    assistant(call("a"), call("b"), id="m1"),
    user([answer("a", "x" * 500), answer("b", "y" * 500)]),
    assistant(call("c"), id="m2"),
    result("c", "z" * 500),
]


def sent(records: list[Record], references: References = "all") -> dict:
    flattener = Flattener(references=references)
    for record in records:
        flattener.add(record)
    messages = flattener.flat().messages
    last = BlockLocation(len(messages) - 1, 0)
    safe = CapturedRequest(
        "claude-opus-5", Preamble((tool("Read"),)), PARAMETERS, messages, {"max_tokens": 99}
    )
    return json.loads(build_request(safe, Breakpoints(((last, Breakpoint(-1, "5m")),))).to_bytes())


def references_in(body: dict) -> dict[str, str | None]:
    blocks = [block for message in body["messages"] for block in message["content"]]
    return {b["tool_use_id"]: b.get("cache_reference") for b in blocks if b["type"] == "tool_result"}


@pytest.mark.spec("PC-15")
def test_every_result_carries_its_call_id_where_the_provider_takes_edits_and_none_elsewhere():
    assert references_in(sent(TALK)) == {"a": "a", "b": "b", "c": "c"}
    assert references_in(sent(TALK, "none")) == {"a": None, "b": None, "c": None}


@pytest.mark.spec("PC-15")
def test_results_are_deleted_from_the_cached_prefix_and_what_is_left_of_it_is_read():
    desk = Desk(EXTENDED)
    whole = desk.usage(**sent(TALK))
    later = [*TALK, edited(CacheDeleted(("a", "b"), "old"), "e"), assistant("ok", id="m3"), user("next")]
    told = desk.ask(**sent(later))
    freed = told["usage"]["cache_deleted_input_tokens"]
    assert freed == 2 * (10 + 200)
    assert told["usage"]["cache_read_input_tokens"] == whole[2] - freed
    # Sent again in every later request, at the same place, or the prefix would be another one.
    more = [*later, assistant("and", id="m4"), user("on")]
    again = desk.ask(**sent(more))
    assert again["usage"]["cache_deleted_input_tokens"] == freed
    assert again["usage"]["cache_read_input_tokens"] > whole[2] - freed


def test_a_reference_leaves_the_bytes_of_all_other_fields_as_they_came():
    odd = block_from_json(
        b'{"type":"tool_result","tool_use_id":"a","content":"\\u00e9","n":1.50,"extra":{ }}'
    )
    assert with_cache_reference(odd).raw == (
        b'{"type":"tool_result","tool_use_id":"a","content":"\\u00e9","n":1.50,"extra":{ },'
        b'"cache_reference":"a"}'
    )
    assert with_cache_reference(odd).call == "a"


def test_an_edit_names_what_it_deletes_in_order():
    assert json.loads(edits_block(["b", "a"]).raw) == {
        "type": "cache_edits",
        "edits": [
            {"type": "delete", "cache_reference": "b"},
            {"type": "delete", "cache_reference": "a"},
        ],
    }
