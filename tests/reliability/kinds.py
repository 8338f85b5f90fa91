"""Every kind of trial that there is, in the order of the board."""

from typing import Final

from reliability.score import Kind
from reliability.trials import Trial

CONVERSATIONS: Final = Kind(
    "conversations",
    "every request is valid, and every block that is out of sight can be found again",
    lambda seed: Trial(seed).run(),
    "requests",
)

KINDS: Final = {kind.name: kind for kind in (CONVERSATIONS,)}
