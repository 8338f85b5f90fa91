"""Reading an object field by field when it does not fit as a whole."""

import msgspec

from everturn.wire.fitting import decode_lenient


class Inner(msgspec.Struct, frozen=True):
    size: int = 0
    name: str = ""


class Strict(msgspec.Struct):
    needed: int


class Outer(msgspec.Struct, rename={"inner": "innerPart"}):
    title: str | None = None
    inner: Inner | None = None
    strict: Strict | None = None
    names: list[str] = []


def test_fields_that_fit_are_read_and_the_others_keep_their_defaults():
    raw = b'{"title":5,"innerPart":{"size":"big","name":"x","new":[]},"names":["a"],"more":1}'
    assert decode_lenient(raw, Outer) == Outer(inner=Inner(name="x"), names=["a"])


def test_a_part_that_cannot_be_made_without_its_fields_is_left_out_whole():
    assert decode_lenient(b'{"title":"t","strict":{"needed":null},"names":[1]}', Outer) == Outer("t")


def test_what_is_no_object_has_no_fields():
    assert decode_lenient(b"[1]", Outer) == Outer()
