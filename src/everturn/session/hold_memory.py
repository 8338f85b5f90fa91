"""What this user's machine has learned about holds: providers and models that lose an entry of an hour
together with the five-minute entries below it (EC-3).

One small file in the user's data folder, replaced as a whole. It may be missing or damaged: then a hold is
trusted once more, and checked once more.
"""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

from everturn.decide.options import ProviderSettings
from everturn.safe_files import make_folder, read_file
from everturn.session.private_files import replace_file
from everturn.session.store.places import default_folder

NAME: Final = "holds.json"
# Our choice: a provider may change.
TRUST_AGAIN: Final = timedelta(days=30)


class LostHold(msgspec.Struct, frozen=True):
    at: datetime
    why: str


class _MemoryFile(msgspec.Struct, frozen=True):
    # By provider, then by model.
    lost: dict[str, dict[str, LostHold]] = {}


class HoldMemory:
    """Opened by whoever holds. `path` is for tests."""

    def __init__(self, provider: ProviderSettings, path: Path | None = None) -> None:
        # The host only: an address may have a password in it.
        self._provider = urlsplit(provider.base_url).hostname or provider.name
        self._path = path or default_folder().parent / NAME

    def read(self, now: datetime) -> dict[str, str]:
        """Why a hold of an hour is not used, by model."""
        known = self._load().lost.get(self._provider, {})
        return {model: each.why for model, each in known.items() if now - each.at < TRUST_AGAIN}

    def remember(self, model: str, why: str, now: datetime) -> str:
        """Returns why that could not be written, or ""."""
        lost = dict(self._load().lost)
        lost[self._provider] = {**lost.get(self._provider, {}), model: LostHold(now, why)}
        try:
            if not self._path.parent.exists():
                make_folder(self._path.parent)
        except OSError as problem:
            return f"{self._path} could not be written: {problem.strerror or problem}"
        return replace_file(str(self._path), msgspec.json.encode(_MemoryFile(lost)))

    def _load(self) -> _MemoryFile:
        try:
            return msgspec.json.decode(read_file(str(self._path)), type=_MemoryFile)
        except (OSError, ValueError, RecursionError, msgspec.MsgspecError):
            return _MemoryFile()
