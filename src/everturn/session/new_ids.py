"""New ids for records and conversations."""

import uuid


def new_uuid() -> str:
    return str(uuid.uuid4())
