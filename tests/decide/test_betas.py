"""Which beta headers a request needs."""

from typing import Any

import pytest

from everturn.decide.betas import required_betas
from everturn.decide.micro.declarative import thinking_in_replies
from everturn.history.blocks import block_from_fields, text_block
from everturn.history.messages import Message
from everturn.measure.outline import Preamble
from everturn.view.forks import CapturedRequest
from everturn.view.key_parameters import KeyParameters, TtlChoice

COMPACTED = block_from_fields({"type": "compaction", "content": "So far.", "signature": "s"})
EDITING, COMPACTING = "context-management-2025-06-27", "compact-2026-09-04"


def request(*messages: Message, betas: tuple[str, ...] = (), **settings: Any) -> CapturedRequest:
    return CapturedRequest("m", Preamble(), KeyParameters(TtlChoice("5m", ""), betas), messages, settings)


def user(*blocks: Any) -> Message:
    return Message("user", blocks)


@pytest.mark.parametrize(
    ("asked", "betas"),
    [
        (request(), ()),
        (request(user(text_block("a"))), ()),
        (request(betas=("x", "y", "x")), ("x", "y")),
        (request(context_management={}), (EDITING,)),
        (request(betas=(EDITING, "x"), context_management={}), (EDITING, "x")),
        (request(user(text_block("a"), COMPACTED)), (COMPACTING,)),
        (request(user(COMPACTED), betas=("x",), context_management={}), ("x", EDITING, COMPACTING)),
        (request(user(text_block("a")), user(COMPACTED)), ()),
    ],
)
def test_a_request_needs_the_betas_of_what_it_uses_each_once(asked, betas):
    assert required_betas(asked) == betas


@pytest.mark.parametrize(
    ("mode", "betas", "found"),
    [
        ("disabled", ["redact-thinking-2026-02-12"], "none"),
        ("enabled", [], "present"),
        ("adaptive", ["x", "redact-thinking-2026-02-12"], "redacted"),
        ("adaptive", ["x-redact-thinking-2026-02-12"], "present"),
    ],
)
def test_replies_have_thinking_unless_it_is_off_or_a_header_redacts_it(mode, betas, found):
    assert thinking_in_replies(mode, betas) == found
