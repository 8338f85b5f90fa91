"""Recorded Claude Code sessions, read once. They lie beside the checkout and are not part of it."""

from pathlib import Path

import pytest

from everturn.wire.claude_code_reader import Transcript, parse_session_file

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data" / "claude-code"


@pytest.fixture(scope="session")
def files() -> dict[str, bytes]:
    """Session files by their path below the data."""
    if not DATA.is_dir():
        pytest.skip("the recorded sessions do not lie beside this checkout (../shared/data)")
    return {str(path.relative_to(DATA)): path.read_bytes() for path in sorted(DATA.rglob("*.jsonl"))}


@pytest.fixture(scope="session")
def transcripts(files: dict[str, bytes]) -> dict[str, Transcript]:
    return {name: parse_session_file(data) for name, data in files.items()}
