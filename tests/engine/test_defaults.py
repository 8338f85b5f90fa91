"""What a value of the engine has by default."""

from typing import Any

from struct_defaults import defaults

from everturn.engine.values import ConversationSettings, ReplyAssessment
from everturn.engine.wire import ParsedReply

DEFAULTS: dict[type, dict[str, Any]] = {
    ConversationSettings: {
        "source": "main",
        "transcript": "",
        "decides": "engine",
        "estimator": None,
        "wire": None,
    },
    ReplyAssessment: {"deletion_saved": 0, "hold_check": None},
    ParsedReply: {"diagnosis": None, "applied": ()},
}


def test_what_is_not_given_has_these_values():
    assert {made: defaults(made, expected) for made, expected in DEFAULTS.items()} == DEFAULTS
