"""The documentation is complete: every package and command is described, every page can be reached."""

import re
from pathlib import Path

import click
import pytest

from everturn.chat.permission import Permissions
from everturn.chat.tools.files.workspace import Workspace
from everturn.chat.tools.toolbox import build_tools
from everturn.cli import COMMANDS, main
from everturn.replay.readers.registry import READERS
from everturn.session.events.prometheus import METRICS
from everturn.session.hooks.rules import HOOK_RULES

LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")
# A link to a part of a page: the page, if it is another one, and the part.
PART = re.compile(r"\]\((?!https?:)([^)#\s]*)#([^)\s]+)\)")
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
SPEC_LINE = re.compile(r"^- ([A-Z]+-\d+) ", re.MULTILINE)


def links(page: str, text: str) -> set[str]:
    """Where the relative links of a page lead, as paths from the root of the repository."""
    here = Path("/", page).parent
    return {str((here / target).resolve()).removeprefix("/") for target in LINK.findall(text)}


def parts(text: str) -> set[str]:
    """The parts of a page that a link can name: its headings, as GitHub spells them."""
    titles = HEADING.findall(FENCED.sub("", text))
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def links_to_parts(page: str, text: str) -> set[tuple[str, str]]:
    """The pages and parts that a page links to, the pages as paths from the root of the repository."""
    here = Path("/", page).parent
    found = PART.findall(FENCED.sub("", text))
    return {(str((here / to).resolve()).removeprefix("/") if to else page, part) for to, part in found}


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


# Pages with a table of the modules of a package.
MODULES = {"chat": "chat", "page": "replay/page", "refetches": "replay/refetches", "replay": "replay"}
MODULE_TABLE = re.compile(r"^\| module \|.*\n\|[-|]+\n((?:\|.*\n)+)", re.MULTILINE)
# The generator of sessions is described in words.
NO_MODULES = {"__init__", "recorded", "synthetic"}


def test_the_tables_of_modules_name_every_module_and_no_other(pages, root):
    for page, package in MODULES.items():
        folder = root / "src" / "everturn" / package
        inside = [each for each in folder.rglob("*.py") if "synthetic" not in each.parent.parts]
        modules = {each.stem for each in inside} | {each.parent.name for each in inside}
        table = "".join(MODULE_TABLE.findall(pages[f"docs/{page}.md"]))
        named = {name for row in re.findall(r"`([a-z_/]+)`", table) for name in row.split("/") if name}
        neighbours = {"parallel", "engines", "result_cache", "replays"} if page == "page" else set()
        assert named - modules - NO_MODULES - neighbours == set(), page
        assert modules - named - NO_MODULES - {folder.name} == set(), page


def test_every_command_has_help_and_is_in_the_manual(cli, pages):
    manual = "\n".join(pages.values())
    assert [name for name, command in cli.items() if not command.help] == []
    assert [name for name in cli if not re.search(rf"\b{name}\b", manual)] == []


def rows(page: str) -> list[list[str]]:
    """The cells of all tables of a page."""
    lines = (line for line in page.splitlines() if line.startswith("| "))
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]


def first_words(page: str) -> set[str]:
    """The words in the first column of all tables of a page."""
    return {word for first, *_ in rows(page) for word in re.findall(r"[\w-]+", first)}


def test_every_command_has_a_row_in_the_list_of_commands(pages):
    named = {
        found[1]
        for first, *_ in rows(pages["docs/cli.md"])
        if (found := re.match(r"`everturn ([\w-]+)", first))
    }
    assert named == set(COMMANDS)


def test_every_hook_event_has_a_row_with_its_rule(pages):
    first, _, _ = pages["docs/hooks.md"].partition("\nA `Session` runs")
    told = {row[0]: (row[3] != "", float(row[4])) for row in rows(first) if row[0] in HOOK_RULES}
    assert told == {event: (rule.can_block, rule.seconds) for event, rule in HOOK_RULES.items()}


def test_every_recorded_format_is_on_the_pages_about_replay_and_audit(pages):
    modules = {reader.recognises.__module__.rpartition(".")[2] for reader in READERS}
    assert {name for name in modules if f"`{name}`" not in pages["docs/replay.md"]} == set()
    plain = re.sub(r"[^a-z]", "", pages["docs/audit.md"].lower())
    assert {name for name in modules if name.partition("_")[0] not in plain} == set()


def test_every_counter_is_on_the_page_about_events_with_its_labels(pages):
    told = {row[0].strip("`"): row[2] for row in rows(pages["docs/events.md"]) if row[0].endswith("_total`")}
    labels = {f"{row.name}_total": ", ".join(f"`{each}`" for each in row.labels) for row in METRICS}
    assert told == labels


def test_every_tool_of_the_chat_is_on_its_page(pages, tmp_path):
    tools = build_tools(Workspace(tmp_path), Permissions(), search=lambda question: question)
    assert {tool.name for tool in tools} - first_words(pages["docs/chat.md"]) == set()


def test_every_page_can_be_reached_from_the_readme_or_the_index(pages):
    reached = {to for page in ("README.md", "docs/README.md") for to in links(page, pages[page])}
    assert set(pages) - reached - {"README.md", "docs/README.md"} == set()


def test_every_link_leads_somewhere(pages, root):
    targets = {(page, target) for page, text in pages.items() for target in links(page, text)}
    assert {(page, to) for page, to in targets if not (root / to).exists()} == set()


def test_every_link_to_a_part_of_a_page_names_a_heading_of_it(pages):
    named = {(page, *to) for page, text in pages.items() for to in links_to_parts(page, text)}
    assert {(page, to, part) for page, to, part in named if part not in parts(pages.get(to, ""))} == set()


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


def test_a_heading_is_named_as_in_a_link_and_a_comment_in_code_is_no_heading():
    text = "# `bill`: the 2 prices\n\n```sh\n# not this\n```\n\n[a](#one) [b](../c.md#two-three)\n"
    assert parts(text) == {"bill-the-2-prices"}
    assert links_to_parts("docs/page.md", text) == {("docs/page.md", "one"), ("c.md", "two-three")}


def test_commands_are_found_in_groups_of_groups():
    inner = click.Group("inner", commands={"leaf": click.Command("leaf")})
    found = commands(click.Group("outer", commands={"inner": inner, "flat": click.Command("flat")}))
    assert set(found) == {"everturn inner leaf", "everturn flat"}
