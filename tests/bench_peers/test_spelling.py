from peers.keeping import blocks_in, marked_at_the_end, words_in
from peers.spelling import request_of

from everturn.history.blocks import Block, text_block

MARKED = b'{"type":"text","text":"go on","cache_control":{"type":"ephemeral"}}'


def said(text: str, role: str = "user", **more: object) -> dict[str, object]:
    return {"role": role, "content": [{"type": "text", "text": text, **more}]}


def last_block(body: dict[str, object]) -> Block:
    return request_of(body, "any").messages[-1].blocks[-1]


def test_a_marker_stands_where_the_peer_put_it() -> None:
    body = {"messages": [said("go on", cache_control={"type": "ephemeral", "ttl": "5m"})]}
    assert last_block(body).raw == MARKED


def test_a_marker_for_the_whole_body_stands_at_its_end() -> None:
    body = {"messages": [said("first"), said("go on")], "cache_control": {"type": "ephemeral"}}
    request = request_of(body, "any")
    assert [message.blocks for message in request.messages] == [
        (text_block("first"),),
        (Block("text", MARKED),),
    ]


def test_thinking_is_never_marked() -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    content = [{"type": "text", "text": "go on"}, thought]
    body = {
        "messages": [{"role": "assistant", "content": content}],
        "cache_control": {"type": "ephemeral"},
    }
    assert [b"cache_control" in block.raw for block in request_of(body, "any").messages[0].blocks] == [
        True,
        False,
    ]


def test_a_head_in_parts_is_one_block_with_the_last_marker() -> None:
    parts = [
        {"type": "text", "text": "rules"},
        {"type": "text", "text": "tools", "cache_control": {"ttl": "1h"}},
    ]
    (head,) = request_of({"system": parts, "messages": []}, "any").system
    assert head.raw == (
        b'{"type":"text","text":"rules\\n\\ntools","cache_control":{"type":"ephemeral","ttl":"1h"}}'
    )


def test_the_body_of_a_peer_is_left_as_it_was() -> None:
    message = said("go on", cache_control={"type": "ephemeral"})
    request_of({"messages": [message]}, "any")
    assert message == said("go on", cache_control={"type": "ephemeral"})


def test_a_plain_string_is_one_text_block() -> None:
    messages = [{"role": "user", "content": "go on"}]
    assert blocks_in(messages[0]) == [{"type": "text", "text": "go on"}]
    assert last_block({"messages": marked_at_the_end(messages)}).raw == MARKED


def test_all_words_of_a_value_are_told_in_order() -> None:
    assert words_in([{"a": "one", "b": ["two", {"c": "three"}]}, 4, None]) == "one\ntwo\nthree"
