"""Where markers may stand, how many, and where the automatic one goes."""

import pytest
from conformance.api import (
    FIVE,
    HOUR,
    PIXEL_PNG,
    Api,
    assistant,
    call,
    long,
    marked,
    result,
    text,
    tool,
    user,
)

pytestmark = pytest.mark.spec("TW-2")
TAIL = range(2, 5)


def test_four_markers_are_allowed_and_five_are_not(api: Api):
    four = [user(*[text(f"b{i}", FIVE) for i in range(4)])]
    assert api.ask(*four).status == 200
    five = [user(*[text(f"b{i}", FIVE) for i in range(5)])]
    assert api.refused(*five) == "A maximum of 4 blocks with cache_control may be provided. Found 5."


def test_markers_are_counted_over_tools_system_and_messages(api: Api):
    words = api.refused(
        user(text("a", FIVE), text("b", FIVE), text("c", FIVE)),
        tools=[tool("one", cache_control=FIVE), tool("two", cache_control=FIVE)],
        system=[text("s", FIVE)],
    )
    assert words == "A maximum of 4 blocks with cache_control may be provided. Found 6."


def test_nested_markers_count_towards_the_four(api: Api):
    nested = result("t1", [text(f"b{i}", FIVE) for i in range(5)])
    words = api.refused(user("go"), assistant(call("t1")), user(nested), tools=[tool()])
    assert words == "A maximum of 4 blocks with cache_control may be provided. Found 5."


def test_each_marker_writes_an_entry(api: Api):
    turns = [
        user(long("a", marker=FIVE), long("b", marker=FIVE), long("c", marker=FIVE), long("d", marker=FIVE))
    ]
    api.usage(*turns)
    assert len(api.ledger()[-1]["cache"]["written"]) == 4
    assert api.read_write_plain(user(long("a"), long("b", marker=FIVE)))[1] == 0


# The automatic marker


def test_the_automatic_marker_sits_on_the_last_block(api: Api):
    _, written, plain = api.read_write_plain(user(long("a"), "tail"), cache_control=FIVE)
    assert written + plain == api.count(user(long("a"), "tail"))
    assert plain in TAIL
    assert api.read_write_plain(user(long("a"), "tail"), cache_control=FIVE)[0] == written


def test_the_automatic_marker_takes_an_hour(api: Api):
    usage = api.usage(user(long("a")), cache_control=HOUR)
    assert usage["cache_creation"]["ephemeral_1h_input_tokens"] == usage["cache_creation_input_tokens"] > 0


def test_the_automatic_marker_on_a_marked_block_changes_nothing(api: Api):
    turns = [user(text("a", FIVE), text("b", FIVE), text("c", FIVE), long("d", marker=FIVE))]
    assert api.read_write_plain(*turns, cache_control=FIVE)[1] > 512


def test_the_automatic_marker_with_another_ttl_than_the_block_is_refused(api: Api):
    assert "ttl" in api.refused(user(long("a", marker=FIVE)), cache_control=HOUR)
    assert "ttl" in api.refused(user(long("a", marker=HOUR)), cache_control=FIVE)


def test_the_automatic_marker_is_the_fifth(api: Api):
    turns = [user(*[text(f"b{i}", FIVE) for i in range(4)], "tail")]
    assert api.refused(*turns, cache_control=FIVE).startswith("A maximum of 4 blocks with cache_control")


def test_the_automatic_marker_after_three_is_the_fourth(api: Api):
    turns = [user(*[text(f"b{i}", FIVE) for i in range(3)], long("tail"))]
    assert api.read_write_plain(*turns, cache_control=FIVE)[1] > 512


def test_the_automatic_marker_walks_back_over_what_cannot_carry_one(api: Api):
    """A turn-scoped system message takes no marker, so the user's block before it gets it."""
    clear_at = "mid-conversation-system-clear-at-2026-08-21"
    aside = {"role": "system", "content": [text("Only now.")], "clear_at": "next_user_message"}
    read, written, plain = api.read_write_plain(user(long("a")), aside, cache_control=FIVE, betas=clear_at)
    assert (read, written > 512, plain > max(TAIL)) == (0, True, True)
    assert api.read_write_plain(user(long("a")), aside, cache_control=FIVE, betas=clear_at)[0] == written


def test_a_null_marker_is_no_marker(api: Api):
    assert api.read_write_plain(user({**long("a"), "cache_control": None}))[:2] == (0, 0)


@pytest.mark.parametrize("carrier", ["tool_use", "tool_result", "image", "document", "nested"])
def test_blocks_that_can_carry_a_marker_do(api: Api, carrier: str):
    image = {
        "type": "image",
        "source": {
            "type": "base64",
            "media_type": "image/png",
            "data": PIXEL_PNG,
        },
    }
    document = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "d" * 50}}
    turns = {
        "tool_use": [assistant(marked(call("t1"))), user(result("t1"))],
        "tool_result": [assistant(call("t1")), user(marked(result("t1")))],
        "nested": [assistant(call("t1")), user(result("t1", [text("seen", FIVE)]))],
        "image": [user(marked(image))],
        "document": [user(marked(document))],
    }[carrier]
    written = api.read_write_plain(user(long("a")), *turns, tools=[tool()])[1]
    assert written > 512
    assert api.read_write_plain(user(long("a")), *turns, tools=[tool()])[0] == written


def test_a_marker_on_thinking_is_refused(api: Api):
    api.script({"content": [{"type": "thinking", "thinking": "hm"}, text("yes")]})
    content = api.reply("hi")["content"]
    content[0]["cache_control"] = FIVE
    words = api.refused("hi", {"role": "assistant", "content": content}, "go on")
    assert words.endswith("cache_control: Extra inputs are not permitted")


@pytest.mark.parametrize(
    ("marker", "place"),
    [
        ({"type": "forever"}, "cache_control"),
        ({"type": "ephemeral", "ttl": "2h"}, "ttl"),
        ({}, "cache_control"),
    ],
)
def test_a_marker_of_an_unknown_kind_is_refused(api: Api, marker: dict[str, str], place: str):
    assert place in api.refused(user(text("a", marker)))
