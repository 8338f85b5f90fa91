"""What blocks and records are worth, and who may say so."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everturn.history.blocks import Block, block_from_fields, block_from_json, result_block, text_block
from everturn.history.records import Record
from everturn.measure.images import FLAT, SHARP, STANDARD
from everturn.measure.model_table import find_model
from everturn.measure.tokens import (
    NOTHING,
    CharactersPerToken,
    LocalTokenizer,
    ProviderCounts,
    RecordCount,
    TokenCount,
    TokenCounter,
    compact_json,
    estimate_block,
    estimate_record,
    estimator_for,
    pad_estimate,
    rough,
)


def user(*blocks: Block, uuid: str = "u", **fields: object) -> Record:
    return Record(kind="user", uuid=uuid, blocks=blocks, **fields)  # type: ignore[arg-type]


@pytest.mark.spec("TOK-1")
@pytest.mark.parametrize(
    ("characters", "tokens"), [(0, 0), (1, 0), (2, 1), (4, 1), (5, 1), (6, 2), (400, 100), (402, 101)]
)
def test_a_text_is_a_quarter_of_its_characters_rounded_half_up(characters: int, tokens: int):
    assert rough("x" * characters) == tokens


@pytest.mark.spec("TOK-1")
def test_characters_are_counted_not_bytes():
    assert rough("é" * 40) == rough("e" * 40) == estimate_block(text_block("é" * 40)) == 10


@pytest.mark.spec("TOK-2")
def test_a_document_and_an_image_of_unknown_size_cost_the_flat_price():
    image = {"type": "image", "source": {"type": "url", "url": "https://example.org/" + "a" * 900}}
    document = {
        "type": "document",
        "source": {"type": "base64", "media_type": "application/pdf", "data": "A" * 90_000},
    }
    assert [estimate_block(block_from_fields(each)) for each in (image, document)] == [2_000, 2_000]


@pytest.mark.spec("TOK-2")
@pytest.mark.parametrize(
    ("source", "tokens"),
    [
        ({"type": "text", "media_type": "text/plain", "data": "x" * 20_000}, 5_000),
        ({"type": "content", "content": "x" * 400}, 100),
        (
            {
                "type": "content",
                "content": [{"type": "text", "text": "x" * 400}, {"type": "text", "text": "x" * 40}],
            },
            110,
        ),
        ({"type": "text"}, 0),
        ({"type": "url", "url": "https://example.org/a.pdf"}, 2_000),
        ({"type": "file", "file_id": "file_1"}, 2_000),
        ("nonsense", 2_000),
    ],
)
def test_a_document_whose_text_is_in_the_block_counts_its_text(source, tokens):
    assert estimate_block(block_from_fields({"type": "document", "source": source})) == tokens
    titled = {"type": "document", "source": source, "title": "x" * 40, "context": "x" * 40}
    assert estimate_block(block_from_fields(titled)) == (tokens if tokens == 2_000 else tokens + 20)


@pytest.mark.spec("TOK-3")
def test_a_call_is_its_name_and_the_json_of_its_input():
    call = block_from_json(
        b'{"type":"tool_use","id":"toolu_1","name":"Read","input":{"file_path":"/a/b.py"}}'
    )
    assert estimate_block(call) == rough('Read{"file_path":"/a/b.py"}')


@pytest.mark.spec("TOK-3")
def test_the_spelling_of_an_input_does_not_change_its_count():
    compact = '{"type":"tool_use","id":"t","name":"W","input":{"text":"éééé","n":[1,2]}}'.encode()
    spaced = (
        b'{"type": "tool_use", "id": "t", "name": "W",\n'
        b' "input": {"text": "\\u00e9\\u00e9\\u00e9\\u00e9", "n": [1, 2]}}'
    )
    assert estimate_block(block_from_json(compact)) == estimate_block(block_from_json(spaced))
    assert estimate_block(block_from_json(compact)) == rough('W{"text":"éééé","n":[1,2]}')


@pytest.mark.spec("TOK-3")
def test_a_result_is_its_text_plus_its_images():
    image = {"type": "image", "source": {"type": "file", "file_id": "f"}}
    parts = [{"type": "text", "text": "x" * 80}, image, {"type": "text", "text": "y" * 40}]
    listed = block_from_fields({"type": "tool_result", "tool_use_id": "t", "content": parts})
    assert estimate_block(listed) == 20 + FLAT + 10
    assert estimate_block(result_block("t", "x" * 80)) == 20


@pytest.mark.spec("TOK-3")
def test_a_result_without_content_is_nothing():
    for fields in ({}, {"content": None}, {"content": ""}, {"content": []}):
        block = block_from_fields({"type": "tool_result", "tool_use_id": "toolu_long_id", **fields})
        assert estimate_block(block) == 0


@pytest.mark.spec("TOK-3")
def test_thinking_is_its_text_and_never_its_signature():
    block = block_from_fields({"type": "thinking", "thinking": "t" * 40, "signature": "s" * 4000})
    assert estimate_block(block) == 10


@pytest.mark.spec("TOK-3")
def test_anything_else_is_its_json():
    strange = {"type": "tool_reference", "tool_name": "x" * 30}
    alone = block_from_fields(strange)
    inside = block_from_fields({"type": "tool_result", "tool_use_id": "t", "content": [strange]})
    assert estimate_block(alone) == estimate_block(inside) == rough(compact_json(alone.raw))


@pytest.mark.parametrize(
    "raw",
    [
        b'{"type":"text","text":null}',
        b'{"type":"text"}',
        b'{"type":"thinking","thinking":{"deep":true}}',
        b'{"type":"tool_use","name":7,"input":{}}',
        b'{"type":"tool_result","content":[1,"two",null]}',
        b'{"type":"odd","n":123456789012345678901234567890,"s":"\\u0001"}',
        b'{"type":"odd","s":"\\ud800"}',
        b'{"type":"odd",',
    ],
)
def test_a_block_of_an_unknown_shape_is_worth_about_its_length(raw: bytes):
    kind = raw.split(b'"')[3].decode()
    assert estimate_block(Block(kind, raw)) == pytest.approx(len(raw) / 4, abs=3)


def test_a_result_that_is_an_object_is_its_json():
    block = block_from_fields({"type": "tool_result", "tool_use_id": "t", "content": {"ok": "x" * 40}})
    assert estimate_block(block) == rough('{"ok":"' + "x" * 40 + '"}')


@pytest.mark.spec("TOK-4")
@pytest.mark.parametrize(("tokens", "safe"), [(0, 0), (1, 2), (3, 4), (4, 6), (75, 100), (100, 134)])
def test_padding_is_four_thirds_rounded_up(tokens: int, safe: int):
    assert pad_estimate(tokens) == safe


@pytest.mark.spec("TOK-4")
@given(st.lists(st.integers(0, 10**6)))
def test_a_sum_is_padded_once_and_not_piece_by_piece(pieces: list[int]):
    whole = sum((TokenCount(guessed=piece) for piece in pieces), TokenCount())
    assert whole.total == sum(pieces)
    assert 0 <= whole.padded * 3 - sum(pieces) * 4 < 3


def test_what_never_is_sent_is_nothing():
    text = (text_block("x" * 400),)
    dropped = [
        Record(kind="progress", uuid="1", blocks=text),
        Record(kind="system", uuid="2", blocks=text),
        Record(kind="user", uuid="3", blocks=text, display_only=True),
        Record(kind="assistant", uuid="4", blocks=text, api_error=True),
    ]
    assert [estimate_record(record) for record in dropped] == [NOTHING] * 4
    hidden_from_people_only = user(*text, meta=True, transcript_only=True)
    assert estimate_record(hidden_from_people_only) == RecordCount(TokenCount(guessed=100), (100,))


@pytest.mark.spec("TOK-7")
def test_a_local_tokenizer_replaces_the_division():
    words = LocalTokenizer(str.split)
    record = user(text_block("three small words"), result_block("t", "two more"))
    assert estimate_record(record, words) == RecordCount(TokenCount(guessed=5), (3, 2))


@pytest.mark.spec("TOK-7")
def test_the_provider_counts_its_records_and_another_estimator_the_rest():
    asked = ProviderCounts({"a": 7}, fallback=CharactersPerToken(2, SHARP))
    known, unknown = user(text_block("x" * 40), uuid="a"), user(text_block("x" * 40), uuid="b")
    assert estimate_record(known, asked) == RecordCount(TokenCount(counted=7), (20,))
    assert estimate_record(unknown, asked) == RecordCount(TokenCount(guessed=20), (20,))
    assert asked.tier == SHARP


@pytest.mark.spec("TOK-7")
def test_a_count_is_not_padded_because_nothing_was_guessed():
    assert TokenCount(guessed=75, counted=75).padded == 175


def test_a_model_brings_its_own_tokenizer_and_image_tier():
    new, old = find_model("claude-opus-4-7"), find_model("claude-opus-4-5")
    assert new is not None
    assert old is not None
    assert estimator_for(new) == CharactersPerToken(2.5, SHARP)
    assert estimator_for(old) == CharactersPerToken(3.4, STANDARD)


@pytest.mark.spec("TOK-8")
def test_a_record_is_counted_once_whoever_asks():
    seen: list[str] = []

    def watched(text: str) -> str:
        seen.append(text)
        return text

    counts = TokenCounter(LocalTokenizer(watched))
    record = user(text_block("hello"))
    assert counts.of(record) is counts.of(record)
    assert seen == ["hello"]


def test_other_blocks_under_a_known_uuid_are_counted_anew():
    counts = TokenCounter()
    assert counts.of(user(text_block("x" * 40))).whole == TokenCount(guessed=10)
    assert counts.of(user(text_block("x" * 80))).whole == TokenCount(guessed=20)


def test_what_was_counted_is_part_of_the_total_and_only_what_was_guessed_is_padded():
    count = TokenCount(guessed=300, counted=50)
    assert (count.total, count.padded) == (350, pad_estimate(300) + 50)


@pytest.mark.spec("TOK-3")
@pytest.mark.parametrize(
    ("raw", "counted_as"),
    [
        (b'{"type":"tool_use"}', "{}"),
        (b'{"type":"tool_use","name":"Read"}', "Read{}"),
        (b'{"type":"tool_use","input":{"a":1}}', '{"a":1}'),
        (b'{"type":"tool_result"}', ""),
        (b'{"type":"tool_result","content":7.5}', "7.5"),
        (b'{"type":"tool_result","content":[{"text":"no kind, so it is its JSON"}]}',
         '{"text":"no kind, so it is its JSON"}'),
        (b'{"type":"document","source":{"type":"text"},"title":null,"context":null}', ""),
        (b'{"type":"document","source":{"type":"content"},"title":"' + b"x" * 40 + b'"}', "x" * 40),
        (b'{"type":"document","source":{"type":"content"},"context":"' + b"x" * 40 + b'"}', "x" * 40),
    ],
)  # fmt: skip
def test_fields_that_a_block_does_not_have_count_as_empty(raw: bytes, counted_as: str):
    by_character = LocalTokenizer(lambda text: text)
    assert estimate_block(block_from_json(raw), by_character) == len(counted_as)


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b'{ "a" : [1, 2] }', '{"a":[1,2]}'),
        (b'{"n":1e5, "n":1.50}', '{"n":1e5,"n":1.50}'),
        (b'{"a":"\\u00e9"}', '{"a":"é"}'),
        (b'{"a":"\\ud800"}', '{"a":"\\ud800"}'),
        (b'{"a":"\\u00e9", "n":1e999}', '{"a":"\\u00e9", "n":1e999}'),
        (b"not json", "not json"),
        (b"\xff", "\ufffd"),
    ],
)
def test_json_is_spelled_without_spaces_and_escapes_or_left_as_it_is(raw: bytes, text: str):
    assert compact_json(raw) == text


def test_counts_of_the_provider_go_by_the_record_and_texts_by_the_other_estimator():
    asked = ProviderCounts({"a": 7}, fallback=CharactersPerToken(2))
    assert (asked.counted("a"), asked.counted("b"), asked.text("x" * 10)) == (7, None, 5)
    assert (CharactersPerToken().counted("a"), LocalTokenizer(str.split).counted("a")) == (None, None)


def test_counts_are_added_and_subtracted_each_kind_by_itself():
    one, other = TokenCount(guessed=30, counted=5), TokenCount(guessed=7, counted=2)
    assert (one + other, one - other) == (TokenCount(37, 7), TokenCount(23, 3))
