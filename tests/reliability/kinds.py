"""Every kind of trial that there is, in the order of the board: one line each.

`share` is how many trials of it there are for every hundred conversations: what is slow gets fewer.
"""

from typing import Final

from postgres_server import find_programs
from reliability.callers import called
from reliability.clocks import jumped
from reliability.crashes import killed, refused
from reliability.damage import damaged
from reliability.gateways import gated
from reliability.hostile_input import HOSTILE_KINDS
from reliability.indexes import indexed
from reliability.machine import walked
from reliability.power import images
from reliability.replicas import survived
from reliability.score import Kind
from reliability.trials import held
from reliability.upgrade import upgraded
from reliability.writers import wrote

# fmt: off
_KINDS: Final = (
    Kind("conversations", held, "requests are valid, and no block is lost", "requests", share=100),
    Kind("steps", walked, "a session on disk says what a plain list says", "steps", share=5),
    Kind("kills", killed, "no acknowledged record is lost, and no compaction is there by halves", share=25),
    Kind("disk-failures", refused, "the caller is told, and nothing acknowledged is lost", share=10),
    Kind("power-cuts", images, "what was synced is there; the view is the old one or the new one", share=50),
    Kind("index-kills", indexed, "an index that was cut off finds what a new one finds", share=2),
    Kind("damage", damaged, "whatever opens a damaged file says what it lost", share=20),
    Kind("clocks", jumped, "a clock that jumps changes no order and loses nothing", "requests", share=10),
    Kind("upgrade", upgraded, "sessions of earlier versions are as they were left", "requests", share=5),
    Kind("two-writers", wrote, "what is acknowledged is in the file, and lines are never mixed", share=3),
    Kind("callers", called, "requests are the caller's own, with its newest message", "requests", share=2),
)
# Where there is a PostgreSQL: what cannot be run has no place on the board.
_REPLICAS: Final = (
    Kind("replicas", survived, "nothing acknowledged is lost, doubled or forked", "operations", share=1),
    Kind("gateways", gated, "the same through gateways, which send the same bytes", "operations", share=1),
) if find_programs() else ()
# fmt: on

KINDS: Final = {kind.name: kind for kind in (*_KINDS, *_REPLICAS, *HOSTILE_KINDS)}
SHARES: Final = {kind.name: kind.share for kind in KINDS.values()}
