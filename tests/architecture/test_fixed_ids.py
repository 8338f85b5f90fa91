"""The ids of tests do not depend on chance (`fixed_ids.py`)."""

import os
import uuid

import pytest

from everturn.session.new_ids import new_uuid

pytestmark = pytest.mark.skipif(
    os.environ.get("EVERTURN_PROFILE", "default") != "default", reason="this profile has random ids"
)


def test_a_test_has_the_same_ids_in_every_run():
    assert (new_uuid(), str(uuid.uuid4())) == (
        "2addb8a1-98a2-4142-ab81-cfaccd083422",
        "4b35b110-6e02-4179-9273-6c462bde7a14",
    )


def test_a_forked_process_has_ids_of_its_own():
    read, write = os.pipe()
    if not (child := os.fork()):
        os.write(write, new_uuid().encode())
        os._exit(0)
    os.waitpid(child, 0)
    with os.fdopen(read, "rb") as pipe:
        os.close(write)
        assert (pipe.read().decode(), new_uuid()) == (
            "3fdbf0f0-8cee-4b43-a01a-cd20512f38b5",
            "1642d8b3-30bf-4b80-8574-0d1b3e7cf63e",
        )
