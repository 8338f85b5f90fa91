"""What a program says and what its tools return: blocks that the API takes, or a sentence before anything is
recorded."""

from types import SimpleNamespace
from typing import Any

import pytest
from surfaces.desk import Desk, call, tool

from everturn import CallbackHook, Hooks
from everturn.errors import UsageError
from everturn.history.blocks import fields_of
from everturn.session.content_blocks import RESULT_PARTS, SHAPES, find_flaw, to_result_content
from everturn.session.tools import ToolResult, to_blocks
from everturn.twin.validate import blocks as twin_blocks

PNG = "iVBORw0KGgo="
PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
PDF = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}}


@pytest.fixture
def desk(tmp_path, twin) -> Desk:
    return Desk(tmp_path, twin)


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def test_the_fields_of_every_known_block_are_those_of_the_sdk():
    listed = {**twin_blocks.BLOCKS, **twin_blocks.RESULT_PARTS}
    for kind, shape in SHAPES.items():
        names = [field.split(" ")[0] for field in listed[kind].split(", ")]
        needed = {name[:-1] for name in names if name.endswith("!")}
        assert set(shape.needs) == needed, kind
        assert shape.may_have == {name for name in names if not name.endswith("!")} - {"cache_control"}, kind
    assert set(twin_blocks.RESULT_PARTS) == RESULT_PARTS


@pytest.mark.parametrize(
    ("returned", "content"),
    [
        ("done", "done"),
        (None, ""),
        (b"caf\xe9", "caf\ufffd"),
        (5, "5"),
        ({"a": 1}, '{"a":1}'),
        (["x"], '["x"]'),
        ({"name": "caf\udce9"}, '{"name":"caf\ufffd"}'),
        ([], []),
        ([text("")], []),
        ([{**text("hi"), "annotations": None, "_meta": {}}], [text("hi")]),
        ([{**text("hi"), "citations": None}], [{**text("hi"), "citations": None}]),
        ([{"type": "image", "data": PNG, "mimeType": "image/png"}], [PICTURE]),
        ([PICTURE], [PICTURE]),
        ([{"type": "resource", "resource": {"uri": "a", "text": "x"}}], [text("x")]),
        (
            [{"type": "resource", "resource": {"uri": "a", "blob": PNG, "mimeType": "image/png"}}],
            [PICTURE],
        ),
        (
            [{"type": "resource", "resource": {"blob": "JVBERi0=", "mimeType": "application/pdf"}}],
            [PDF],
        ),
        ([{"type": "audio", "data": "AA=="}], [text('{"type":"audio","data":"AA=="}')]),
        ([{"type": "image"}], [text('{"type":"image"}')]),
        ([text("a"), {"type": "text", "text": 5}], [text("a"), text('{"type":"text","text":5}')]),
        (
            [{"type": "image", "data": PNG, "mimeType": "image/bmp"}],
            [text(f'{{"type":"image","data":"{PNG}","mimeType":"image/bmp"}}')],
        ),
        ([{"type": "tool_use", "id": "a"}], [text('{"type":"tool_use","id":"a"}')]),
        (
            [SimpleNamespace(model_dump=lambda **_: text("an object of a client"))],
            [text("an object of a client")],
        ),
    ],
)
def test_whatever_a_tool_returns_becomes_content_that_the_api_takes(returned, content):
    assert to_result_content(returned) == content


@pytest.mark.parametrize("returned", [[{"type": "image"}], [{**text("hi"), "annotations": None}], {"a": 1}])
@pytest.mark.parametrize("giver", ["tool", "hook", "caller"])
def test_a_result_that_the_api_does_not_know_ends_no_conversation(desk, returned, giver):
    given = to_result_content(returned)
    desk.twin.script({"content": [call("toolu_1")]}, "Seen.", "Still here.")
    output = {"hookSpecificOutput": {"updatedToolOutput": returned}}
    hooks = Hooks((CallbackHook("PostToolUse", lambda _: output),) if giver == "hook" else ())
    run = {"tool": lambda _: returned, "hook": lambda _: "x", "caller": None}[giver]
    with desk.open(tools=[tool("Read", run)], hooks=hooks) as session:
        reply = session.send("Read it.")
        if giver == "caller":
            reply = session.send([ToolResult("toolu_1", returned)])
        assert (reply.text, session.send("And now?").text) == ("Seen.", "Still here.")
        results = [block for each in session.conversation.log.records for block in each.blocks]
    assert [fields_of(block)["content"] for block in results if block.is_result] == [given]


@pytest.mark.parametrize(
    ("block", "flaw"),
    [
        ({"type": "image"}, "the field `source` of a block of type image is missing"),
        (
            {"type": "image", "source": {"type": "base64"}},
            "the field `source` of a block of type image is wrong",
        ),
        ({"type": "text", "text": 5}, "the field `text` of a block of type text is wrong"),
        ({**text("x"), "foo": 1}, "a block of type text has no field `foo`"),
        (
            {"role": "user", "content": "x"},
            "it has no `type`; send the content of a message, not the message itself",
        ),
        ({"text": "x"}, "it has no `type`"),
    ],
)
def test_a_block_that_the_api_refuses_is_refused_before_it_is_recorded(desk, block, flaw):
    with desk.open() as session:
        with pytest.raises(UsageError) as refused:
            session.send([block])
        assert str(refused.value) == (
            f"The API does not take this content block: {flaw}. Nothing was recorded or sent; "
            f"correct the block {block!r}."
        )
        assert (session.conversation.log.records, desk.bodies) == ([], [])


@pytest.mark.parametrize(
    "block",
    [
        {**text("x"), "cache_control": {"type": "ephemeral"}, "citations": None},
        {**PICTURE, "transformations": {"oversized_image": "downsize"}},
        {**PDF, "title": "Report", "context": "Yearly", "citations": {"enabled": True}},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": ""}},
        {"type": "document", "source": {"type": "content", "content": [text("a")]}},
        {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
        {"type": "image", "source": {"type": "file", "file_id": "file_1"}},
        {"type": "image", "source": {"type": "of_next_year", "where": 1}},
        {"type": "search_result", "content": [text("a")], "source": "s", "title": "t", "citations": {}},
        {"type": "tool_result", "tool_use_id": "toolu_1"},
        {"type": "container_upload", "file_id": "file_1"},
        {"type": "of_next_year", "anything": 1},
    ],
)
def test_what_the_api_takes_is_not_refused(block):
    kept = {name: value for name, value in block.items() if name != "cache_control"}
    assert find_flaw(block) == ""
    assert [fields_of(each) for each in to_blocks([block])] == [kept]


@pytest.mark.parametrize(
    ("message", "says"),
    [
        (None, "this is None. To go on without one: `send()`."),
        (5, "this is 5. To go on without one: `send()`."),
        (b"x", "this is b'x'. To go on without one: `send()`."),
        (text("x"), "this is {'type': 'text', 'text': 'x'}. Put the block into a list."),
        (["x"], "this part is 'x'."),
    ],
)
def test_what_is_no_message_is_refused_in_one_sentence(desk, message, says):
    with desk.open() as session:
        with pytest.raises(UsageError) as refused:
            session.send(message)
        assert str(refused.value) == f"A message is a text or a list of content blocks; {says}"
        assert (session.conversation.log.records, desk.bodies) == ([], [])
