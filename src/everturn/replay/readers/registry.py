"""All known formats in the order they are tried: the most distinctive ones first."""

from typing import Final

from everturn.replay.readers.aider import AIDER
from everturn.replay.readers.anthropic_messages import ANTHROPIC
from everturn.replay.readers.claude_code import CLAUDE_CODE
from everturn.replay.readers.codex import CODEX
from everturn.replay.readers.codex_terminal import CODEX_TERMINAL
from everturn.replay.readers.gemini_cli import GEMINI_CLI
from everturn.replay.readers.openai_messages import OPENAI, TAU_BENCH
from everturn.replay.readers.openhands import OPENHANDS
from everturn.replay.readers.pi import PI
from everturn.replay.readers.swe_agent import MINI_SWE_AGENT, SWE_AGENT
from everturn.replay.readers.values import Reader

READERS: Final[tuple[Reader, ...]] = (
    CLAUDE_CODE,
    PI,
    CODEX_TERMINAL,
    CODEX,
    SWE_AGENT,
    MINI_SWE_AGENT,
    OPENHANDS,
    GEMINI_CLI,
    TAU_BENCH,
    OPENAI,
    ANTHROPIC,
    AIDER,
)
