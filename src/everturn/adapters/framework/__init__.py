"""What the adapters of agent frameworks share: their messages and the API's, there and back again."""

from everturn.adapters.framework.holder import Chosen, Holder, Options
from everturn.adapters.framework.pieces import Piece, Shown, body_of, opaque, traced
from everturn.adapters.framework.replies import Counted, Heard, answered, is_refused, is_too_long, unreached
from everturn.session.config.shape import DEFAULT_POLICY

__all__ = [
    "DEFAULT_POLICY",
    "Chosen",
    "Counted",
    "Heard",
    "Holder",
    "Options",
    "Piece",
    "Shown",
    "answered",
    "body_of",
    "is_refused",
    "is_too_long",
    "opaque",
    "traced",
    "unreached",
]
