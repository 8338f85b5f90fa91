"""New ids: random UUIDs of version 4, as text."""

import uuid

from everturn.session.new_ids import new_uuid


def test_a_new_id_is_a_random_uuid_of_version_4_spelled_as_usual():
    made = [new_uuid() for _ in range(200)]
    read = [uuid.UUID(each) for each in made]
    assert [str(each) for each in read] == made
    assert {(each.version, each.variant) for each in read} == {(4, uuid.RFC_4122)}
    assert len(set(made)) == 200
    # Every bit that may be random takes both values.
    assert all(0 < sum(each.int >> bit & 1 for each in read) < 200 for bit in _RANDOM_BITS)


_RANDOM_BITS = [bit for bit in range(128) if bit not in {62, 63, 76, 77, 78, 79}]
