"""Where everything is that was ever said: in sight, behind a summary, hidden by an edit, on another branch.

A block that is in none of these places is lost. Places are looked at in the file as a stranger would read it,
never in what a session remembers.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from everturn.history.blocks import text_of
from everturn.history.edits import Offloaded
from everturn.history.log import Log
from everturn.history.records import Record
from everturn.history.threads import split_threads
from everturn.session.recall.expand import expand_compactions
from everturn.view.flatten import flatten

Place = Literal["sent", "view", "unfold", "log", "branch", "sidechain"]


# Of a block that is lost, in bytes.
MOST_SHOWN = 60


class Lost(AssertionError):
    """Something that was recorded, and that nobody finds again."""


class Everything:
    """What a session file holds, as its reader finds it."""

    def __init__(self, records: Sequence[Record]) -> None:
        self.records = records
        self._threads = split_threads(records)
        self.log = Log(self._threads.main.records)

    def places_of(self, said: Iterable[bytes], files: Mapping[str, str]) -> Counter[Place]:
        """How many blocks are where; raises `Lost` where one is nowhere, or a text is not in its file."""
        known = self._places()
        missing = [each for each in said if each not in known]
        if missing:
            first = min(missing)[:MOST_SHOWN].decode("utf-8", "replace")
            raise Lost(f"{len(missing)} blocks are nowhere to be found, the first begins with {first}")
        self._check_files(files)
        return Counter(known[each] for each in said)

    def _places(self) -> dict[bytes, Place]:
        """The best place of every block, by its bytes."""
        main, known = self._threads.main, dict[bytes, Place]()
        for side in self._threads.sidechains:
            _note(known, "sidechain", (*side.records, *side.abandoned))
        _note(known, "branch", main.abandoned)
        _note(known, "log", self.log.records)
        for fold in expand_compactions(main.records):
            _note(known, "unfold", fold.replaced)
        _note(known, "view", self.log.view.records)
        for message in flatten(self.log.view).messages:
            known.update([(block.raw, "sent") for block in message.blocks])
        return known

    def _check_files(self, files: Mapping[str, str]) -> None:
        """A result that was moved to a file is there as a whole."""
        moved = [each.edit for each in self.records if isinstance(each.edit, Offloaded)]
        if not moved:
            return
        blocks = (block for record in self.records for block in record.blocks if block.is_result)
        # Ids repeat in broken files: one of the results of that id is meant.
        texts = {(block.call, text_of(block)) for block in blocks}
        for edit in moved:
            if edit.path not in files:
                raise Lost(f"the result of {edit.call} was moved to {edit.path}, which does not exist")
            if (edit.call, files[edit.path]) not in texts:
                raise Lost(f"{edit.path} does not hold what {edit.call} answered")


def _note(known: dict[bytes, Place], place: Place, records: Iterable[Record]) -> None:
    known.update([(block.raw, place) for record in records for block in record.blocks])
