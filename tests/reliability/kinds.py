"""Every kind of trial that there is, in the order of the board.

`share` is how many trials of it there are for every hundred conversations: what is slow gets fewer, and what
takes a minute or more is run only where it is asked for by name. A kind is
loaded when it is run: what others need would only make a process large that forks for each trial.
"""

from importlib import import_module
from typing import Any, Final

from postgres_server import find_programs
from reliability.score import Counts, Kind


class Home:
    """The function of a kind, by its name; its module is imported when it is called."""

    def __init__(self, module: str, name: str) -> None:
        self.__module__ = f"reliability.{module}"
        self._name = name

    def load(self) -> Any:
        return getattr(import_module(self.__module__), self._name)

    def __call__(self, seed: int) -> Counts:
        return self.load()(seed)


_KINDS: Final = (
    Kind(
        "conversations",
        Home("trials", "held"),
        "requests are valid, and no block is lost",
        "requests",
        share=100,
    ),
    Kind(
        "steps", Home("machine", "walked"), "a session on disk says what a plain list says", "steps", share=5
    ),
    Kind(
        "kills",
        Home("crashes", "killed"),
        "no acknowledged record is lost, and no compaction is there by halves",
        share=25,
        forks=True,
    ),
    Kind(
        "disk-failures",
        Home("crashes", "refused"),
        "the caller is told, and nothing acknowledged is lost",
        share=10,
        forks=True,
    ),
    Kind(
        "power-cuts",
        Home("power", "images"),
        "what was synced is there; the view is the old one or the new one",
        share=50,
    ),
    Kind(
        "index-kills",
        Home("indexes", "indexed"),
        "an index that was cut off finds what a new one finds",
        share=2,
        forks=True,
    ),
    Kind("damage", Home("damage", "damaged"), "whatever opens a damaged file says what it lost", share=20),
    Kind(
        "clocks",
        Home("clocks", "jumped"),
        "a clock that jumps changes no order and loses nothing",
        "requests",
        share=10,
    ),
    Kind(
        "upgrade",
        Home("upgrade", "upgraded"),
        "sessions of earlier versions are as they were left",
        "requests",
        share=5,
    ),
    Kind(
        "two-writers",
        Home("writers", "wrote"),
        "what is acknowledged is in the file, and lines are never mixed",
        share=3,
    ),
    Kind(
        "callers",
        Home("callers", "called"),
        "requests are the caller's own, with its newest message",
        "requests",
        share=2,
    ),
    Kind(
        "long-callers",
        Home("long_callers", "talked"),
        "the same for hundreds of steps in one conversation",
        "steps",
        share=0,
    ),
)
# Where there is a PostgreSQL: what cannot be run has no place on the board.
_REPLICAS: Final = (
    (
        Kind(
            "replicas",
            Home("replicas", "survived"),
            "nothing acknowledged is lost, doubled or forked",
            "operations",
            share=1,
        ),
        Kind(
            "gateways",
            Home("gateways", "gated"),
            "the same through gateways, which send the same bytes",
            "operations",
            share=1,
        ),
    )
    if find_programs()
    else ()
)
_HOSTILE: Final = (
    Kind(
        "hostile-commands",
        Home("hostile_input", "commands"),
        "always covers only what a shell splits as we do",
        share=50,
    ),
    Kind(
        "hostile-paths", Home("hostile_input", "paths"), "no path leads out of its folder", "paths", share=10
    ),
    Kind(
        "hostile-settings",
        Home("hostile_input", "settings"),
        "settings are refused in a sentence or edited and restored",
        share=50,
    ),
    Kind(
        "hostile-transcripts",
        Home("hostile_input", "transcripts"),
        "a damaged transcript is read",
        "records",
        share=20,
    ),
    Kind(
        "hostile-streams",
        Home("hostile_input", "streams"),
        "a stream is read the same however it is cut",
        "events",
        share=100,
    ),
    Kind(
        "hostile-terminal",
        Home("hostile_input", "terminal"),
        "no text steers a terminal",
        "letters",
        share=100,
    ),
)

KINDS: Final = {kind.name: kind for kind in (*_KINDS, *_REPLICAS, *_HOSTILE)}
SHARES: Final = {kind.name: kind.share for kind in KINDS.values()}
