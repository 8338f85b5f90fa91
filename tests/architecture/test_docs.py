"""The documentation is complete: every package and command is described, every page can be reached."""

import re
from pathlib import Path

import click
import pytest

from everturn.cli import main

LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")
SPEC_LINE = re.compile(r"^- ([A-Z]+-\d+) ", re.MULTILINE)


def links(page: str, text: str) -> set[str]:
    """Where the relative links of a page lead, as paths from the root of the repository."""
    here = Path("/", page).parent
    return {str((here / target).resolve()).removeprefix("/") for target in LINK.findall(text)}


def commands(group: click.Command, path: str = "everturn") -> dict[str, click.Command]:
    if not isinstance(group, click.Group):
        return {path: group}
    context = click.Context(group)
    found = {name: group.get_command(context, name) for name in group.list_commands(context)}
    return {
        at: it for name, cmd in found.items() if cmd for at, it in commands(cmd, f"{path} {name}").items()
    }


@pytest.fixture(scope="module")
def cli() -> dict[str, click.Command]:
    return commands(main)


def test_every_command_has_help_and_is_in_the_manual(cli, pages):
    manual = "\n".join(pages.values())
    assert [name for name, command in cli.items() if not command.help] == []
    assert [name for name in cli if not re.search(rf"\b{name}\b", manual)] == []


def test_every_page_can_be_reached_from_the_readme_or_the_index(pages):
    reached = {to for page in ("README.md", "docs/README.md") for to in links(page, pages[page])}
    assert set(pages) - reached - {"README.md", "docs/README.md"} == set()


def test_every_link_leads_somewhere(pages, root):
    targets = {(page, target) for page, text in pages.items() for target in links(page, text)}
    assert {(page, to) for page, to in targets if not (root / to).exists()} == set()


def test_the_requirement_list_has_the_ids_of_the_specification(root, pages):
    folder = root.parent / "shared" / "spec"
    if not folder.is_dir():
        pytest.skip("the specification does not lie beside this checkout (../shared/spec)")
    given = [name for path in sorted(folder.glob("*.md")) for name in SPEC_LINE.findall(path.read_text())]
    ours = re.findall(r"^- \*\*([A-Z]+-\d+)\*\* ", pages["docs/requirements.md"], re.MULTILINE)
    assert sorted(ours) == sorted(given)


def test_links_are_resolved_from_the_page_they_stand_on():
    text = "[a](a.md) [b](../b.md#part) [c](https://example.org/c.md) [d](#part)"
    assert links("docs/page.md", text) == {"docs/a.md", "b.md"}


def test_commands_are_found_in_groups_of_groups():
    inner = click.Group("inner", commands={"leaf": click.Command("leaf")})
    found = commands(click.Group("outer", commands={"inner": inner, "flat": click.Command("flat")}))
    assert set(found) == {"everturn inner leaf", "everturn flat"}
