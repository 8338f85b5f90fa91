"""Every kind of trial that there is, in the order of the board."""

from typing import Final

from reliability.crashes import killed, refused
from reliability.indexes import indexed
from reliability.machine import walked
from reliability.power import images
from reliability.score import Kind
from reliability.trials import Trial

CONVERSATIONS: Final = Kind(
    "conversations",
    "every request is valid, and every block that is out of sight can be found again",
    lambda seed: Trial(seed).run(),
    "requests",
)
STEPS: Final = Kind(
    "steps",
    "a session on disk says what a plain list says, after every step",
    walked,
    "steps",
)
KILLS: Final = Kind(
    "kills",
    "no acknowledged record is lost, and no compaction is there by halves",
    killed,
)
DISK_FAILURES: Final = Kind(
    "disk-failures",
    "the caller is told, and nothing acknowledged is lost",
    refused,
)
POWER_CUTS: Final = Kind(
    "power-cuts",
    "everything that was synced is there, and the view is the old one or the new one",
    images,
)
INDEX_KILLS: Final = Kind(
    "index-kills",
    "an index that was cut off opens, catches up and finds what a new one finds",
    indexed,
)

KINDS: Final = {
    kind.name: kind for kind in (CONVERSATIONS, STEPS, KILLS, DISK_FAILURES, POWER_CUTS, INDEX_KILLS)
}
# Trials of each kind for every hundred conversations: what is slow gets fewer.
SHARES: Final = {
    "conversations": 100, "steps": 5, "kills": 25, "disk-failures": 10, "power-cuts": 50, "index-kills": 2,
}  # fmt: skip
