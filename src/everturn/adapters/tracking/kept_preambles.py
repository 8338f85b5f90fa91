"""System prompt and tools of server-side threads, kept beside the transcript.

A request that continues a thread does not repeat them, and another replica may get it.
"""

from pathlib import Path

import msgspec

from everturn.measure.outline import Preamble
from everturn.safe_files import read_file
from everturn.session.state_file import read_state
from everturn.session.store.protocol import Store


class KeptPreamble(msgspec.Struct, frozen=True):
    preamble: Preamble = Preamble()
    digest: bytes = b""

    @property
    def name(self) -> str:
        return f"preamble-{self.digest.hex()}.json"


def write_preamble(store: Store, kept: KeptPreamble) -> None:
    store.write_blob(kept.name, msgspec.json.encode(kept))


def read_preamble(store: Store) -> KeptPreamble:
    """The one that the state names; an empty one if there is none or it cannot be read."""
    name = read_state(store).preamble
    try:
        return msgspec.json.decode(read_file(Path(store.blob_folder) / name), type=KeptPreamble)
    except (OSError, ValueError, msgspec.MsgspecError):
        return KeptPreamble()
