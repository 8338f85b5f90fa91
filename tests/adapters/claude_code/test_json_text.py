"""JSON changed in its text: what is put in is there, what is taken out is gone, the rest is untouched."""

import json

import pytest
from adapters.claude_code.any_settings import VALUES, texts
from hypothesis import given

from everturn.adapters.claude_code.settings import json_text


@given(texts(), VALUES)
def test_a_member_that_is_put_in_and_taken_out_leaves_the_value_as_it_was(text, value):
    changed = json_text.add_member(text, ["new one"], value)
    expected = json.loads(text) | {"new one": value}
    assert json.loads(changed) == expected
    assert list(json.loads(changed)) == list(expected)
    spans = json_text.members_at(changed, [])
    back = json_text.remove_span(changed, spans, len(spans) - 1)
    assert json.loads(back) == json.loads(text)
    if len(spans) > 1:
        assert back == text


@given(texts())
def test_taking_out_a_member_takes_out_only_that(text):
    spans = json_text.members_at(text, [])
    for number, span in enumerate(spans):
        kept = [each for at, each in enumerate(spans) if at != number]
        left = json_text.remove_span(text, spans, number)
        assert [(each.key, each.value) for each in json_text.members_at(left, [])] == [
            (each.key, each.value) for each in kept
        ]
        for each in kept:
            assert text[each.value_start : each.end] in left
        assert span not in kept


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{}", '{\n  "new": {\n    "a": 1\n  }\n}'),
        ('{"b":2}', '{"b":2,"new": {"a": 1}}'),
        ('{"b":2, "c":3}', '{"b":2, "c":3, "new": {"a": 1}}'),
        ('{\n\t"b": 2\n}\n', '{\n\t"b": 2,\n\t"new": {\n\t\t"a": 1\n\t}\n}\n'),
        ('{\r\n    "b": 1.50\r\n}', '{\r\n    "b": 1.50,\r\n    "new": {\r\n        "a": 1\r\n    }\r\n}'),
        ('{\n  "b": [\n    1]}', '{\n  "b": [\n    1],\n  "new": {\n    "a": 1\n  }}'),
    ],
)
def test_new_text_follows_the_layout_around_it(text, expected):
    assert json_text.add_member(text, ["new"], {"a": 1}) == expected


def test_an_item_follows_the_layout_of_its_list():
    text = '{\n  "a": {\n    "b": [\n      1\n    ]\n  }\n}'
    expected = '{\n  "a": {\n    "b": [\n      1,\n      {\n        "c": 2\n      }\n    ]\n  }\n}'
    assert json_text.add_item(text, ["a", "b"], {"c": 2}) == expected


def test_of_two_members_of_one_name_the_last_counts_as_in_every_reader():
    text = '{"a": {"x": 1}, "a": {"y": 2}}'
    assert json_text.add_member(text, ["a", "z"], 3) == '{"a": {"x": 1}, "a": {"y": 2,"z": 3}}'


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            '{\n  // mine\n  "a": 1\n}',
            "comments are not allowed in JSON, remove the one at line 2, column 3",
        ),
        (
            '{"a": 1, /* mine */ "b": 2}',
            "comments are not allowed in JSON, remove the one at line 1, column 10",
        ),
        ('{\n  "a": 1,\n}', "remove the extra comma"),
        ('{"a": [1, ]}', "remove the extra comma"),
        ("{'a': 1}", "expecting property name enclosed in double quotes at line 1, column 2"),
        ('{"a": 1', "at line 1, column 8"),
        ('{"a": NaN}', "it contains NaN, which is not valid JSON"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_what_is_no_json_is_told_with_its_place(text, says):
    with pytest.raises(json_text.InvalidJson) as caught:
        json_text.parse_json(text)
    assert says in str(caught.value)
