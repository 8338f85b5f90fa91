"""The seam to the provider: bytes of a request in, bytes of its answer out.

One callable is all that a session needs of the world. The Anthropic SDK is one; a twin in the same process
is another (`twin/upstream.py`).
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    import anthropic


class Answered(msgspec.Struct, frozen=True):
    """The body of a plain response, and the id the provider knows the request by."""

    body: bytes
    request_id: str = ""


# The body of the request, and the betas that its header must name.
Send = Callable[[bytes, Sequence[str]], Answered]


def through_sdk(client: "anthropic.Anthropic") -> Send:
    """Send with the official SDK: its retries, its errors. It spells the body again, in the same order."""

    def send(body: bytes, betas: Sequence[str]) -> Answered:
        fields: dict[str, Any] = msgspec.json.decode(body)
        # Fields that a version of the SDK has no parameter for still reach the API.
        known = {name: fields.pop(name) for name in ("model", "messages", "max_tokens") if name in fields}
        raw = client.beta.messages.with_raw_response.create(**known, betas=list(betas), extra_body=fields)
        return Answered(raw.http_response.read(), raw.headers.get("request-id", ""))

    return send
