"""Values of decoded JSON, and of what a caller passes instead of it, by their kind."""

from types import MappingProxyType

from everturn.wire import json_values

VALUES = {
    "object": {"a": 1},
    "mapping": MappingProxyType({"a": 1}),
    "list": [1],
    "tuple": (1,),
    "text": "[1]",
    "nothing": None,
}


def test_each_kind_is_told_from_the_others():
    checks = {
        "is_object": {"object"},
        "is_mapping": {"object", "mapping"},
        "is_list": {"list"},
        "is_sequence": {"list", "tuple"},
    }
    found = {
        check: {name for name, value in VALUES.items() if getattr(json_values, check)(value)}
        for check in checks
    }
    assert found == checks


def test_a_value_of_another_kind_is_read_as_empty_or_none():
    readers = {
        "as_object": ({"object"}, {}),
        "as_mapping": ({"object", "mapping"}, None),
        "as_list": ({"list"}, None),
        "as_sequence": ({"list", "tuple"}, None),
    }
    for reader, (kept, otherwise) in readers.items():
        read = {name: getattr(json_values, reader)(value) for name, value in VALUES.items()}
        assert read == {name: value if name in kept else otherwise for name, value in VALUES.items()}


def test_of_an_array_only_the_objects_are_taken():
    assert json_values.as_objects([{"a": 1}, 2, [{"b": 3}], {"c": 4}]) == [{"a": 1}, {"c": 4}]
    assert json_values.as_objects({"a": 1}) == []
