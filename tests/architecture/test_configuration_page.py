"""docs/configuration.md lists every configuration key with its default."""

import re
from datetime import timedelta

from everturn.session.config.keys import KEYS, RENAMED_KEYS, ConfigKey
from everturn.session.config.sources import KNOWN_VARIABLES, NOT_FOR_PROJECTS

PAGE = "docs/configuration.md"
ROW = re.compile(r"^\| `([\w.]+)` \| (.*?) \| .+ \|$", re.MULTILINE)


def show_default(key: ConfigKey) -> str:
    value = key.default
    if isinstance(value, bool):
        return "`true`" if value else "`false`"
    if isinstance(value, timedelta):
        seconds = int(value.total_seconds())
        return f"`{seconds}s`" if seconds % 60 else f"`{seconds // 60}m`"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, tuple):
        return ", ".join(f"`{each}`" for each in value) or "none"
    if value is None or key.is_secret or value == "":
        return "none"
    return f"`{value}`" if isinstance(value, str) else str(value)


def test_every_key_is_on_the_page_with_its_default(pages):
    shown = dict(ROW.findall(pages[PAGE]))
    assert shown == {name: show_default(key) for name, key in KEYS.items()}


def test_every_known_variable_and_renamed_key_is_on_the_page(pages):
    named = set(re.findall(r"`([\w.]+)`", pages[PAGE]))
    variables = {known.variable for known in KNOWN_VARIABLES}
    renamed = {name for name in RENAMED_KEYS if name.startswith("switches.")}
    assert (variables | renamed) - named == set()


def test_the_page_names_the_sections_that_a_project_cannot_set(pages):
    (sentence,) = re.findall(r"A project's file cannot set (.*?)\.\n", pages[PAGE])[:1]
    assert set(re.findall(r"`([a-z]+\.)\*`", sentence)) == set(NOT_FOR_PROJECTS)
