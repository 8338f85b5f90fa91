"""Every format that is known, in the order they are tried: what is told apart most surely comes first."""

from typing import Final

from everturn.replay.readers.claude_code import CLAUDE_CODE
from everturn.replay.readers.values import Reader

READERS: Final[tuple[Reader, ...]] = (CLAUDE_CODE,)
