"""A real browser for tests of pages: chromium, driven by playwright; a clear skip where it is absent."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")


@contextmanager
def browser() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: make browser")
    path = next((found for name in NAMES if (found := shutil.which(name))), None)
    if path is None:
        pytest.skip("no chromium on this machine: make browser")
    with api.sync_playwright() as playwright:
        # No sandbox: inside containers, chromium runs as root and may not make one. Pages here are our own.
        found = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"], timeout=20_000)
        yield found
        found.close()
