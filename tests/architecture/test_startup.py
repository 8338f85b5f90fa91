"""Importing does nothing, and help is quick: what is heavy is imported by those who use it."""

import subprocess
import sys

HEAVY = ("anthropic", "httpx2", "rich", "starlette", "uvicorn", "asyncio", "sqlite3")
HEAVY_FOR_HELP = ("anthropic", "httpx2", "starlette", "uvicorn")


def imported_by(code: str) -> set[str]:
    """The modules that are loaded in a fresh interpreter after `code` ran, whatever it exits with."""
    script = f"import sys\ntry:\n    {code}\nexcept SystemExit:\n    pass\nprint('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_everturn_loads_nothing_heavy():
    assert imported_by("import everturn") & set(HEAVY) == set()


def test_help_loads_no_server_and_no_sdk():
    loaded = imported_by("from everturn.cli import main; main(['--help'])")
    assert "everturn.cli" in loaded
    assert loaded & set(HEAVY_FOR_HELP) == set()


def test_a_heavy_import_is_seen():
    assert "sqlite3" in imported_by("import sqlite3; raise SystemExit(3)")
