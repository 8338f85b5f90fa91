"""The server as an agent meets it: started as a command, asked over its standard input and output."""

import json
import sys
from pathlib import Path
from shutil import copy
from typing import Any

import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

ROOT = Path(__file__).parents[2]
ID = "503f140a-1679-4485-8a13-aa7aebcd52b2"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A home with one session of Claude Code, and a directory that it was held in."""
    here = tmp_path / "work"
    here.mkdir()
    folder = (
        tmp_path / ".claude" / "projects" / str(here).replace("/", "-").replace("_", "-").replace(".", "-")
    )
    folder.mkdir(parents=True)
    copy(ROOT / "examples" / "session.jsonl", folder / f"{ID}.jsonl")
    return here


def server(project: Path, **environment: str) -> StdioServerParameters:
    return StdioServerParameters(
        command=str(Path(sys.executable).with_name("everturn")),
        args=["mcp"],
        env={"HOME": str(project.parent), **environment},
        cwd=project,
    )


async def asked(
    project: Path, *calls: tuple[str, dict[str, Any]], **environment: str
) -> list[tuple[bool, Any]]:
    """Whether each answer is an error, and what it says."""
    answers = []
    async with (
        stdio_client(server(project, **environment)) as (read, write),
        ClientSession(read, write) as client,
    ):
        await client.initialize()
        for name, given in calls:
            result = await client.call_tool(name, given)
            [content] = result.content
            # The library puts the name of the tool in front of an error.
            said = content.text.partition(": ")[2] if result.is_error else json.loads(content.text)
            answers.append((bool(result.is_error), said))
    return answers


async def test_an_agent_learns_about_its_own_session_without_naming_it(project: Path):
    [(_, usage), (_, audit), (_, missed), (_, plan), (_, found)] = await asked(
        project,
        ("context_usage", {}),
        ("audit", {}),
        ("why_cache_miss", {}),
        ("dry_run_compaction", {"instructions": "the tests"}),
        ("recall", {"query": "audit_channel", "limit": 1}),
        CLAUDE_CODE_SESSION_ID=ID,
    )
    assert (usage["tokens"], usage["window"], usage["compacts_at"]) == (123173, 200000, 167000)
    assert sum(usage["by_kind"].values()) == usage["tokens"]
    assert (audit["calls"], audit["dollars"], audit["hit_rate"]) == (147, 7.3377, 0.9687)
    assert [(each["call"], each["reason"]) for each in missed["last_breaks"]] == [
        (61, "compaction"),
        (46, "idle"),
    ]
    assert plan["would_compact"] is True
    assert plan["summary_by"] == "no model: put together from the session"
    assert plan["tokens_after_expected"] < plan["tokens_before"] == 123173
    [hit] = found["hits"]
    assert "audit_channel" in hit["text"]


async def test_a_pin_is_kept_beside_the_transcript_and_the_transcript_is_left_alone(project: Path):
    [transcript] = project.parent.glob(".claude/projects/*/*.jsonl")
    before = transcript.read_bytes()
    answers = await asked(
        project,
        ("pin", {"words": " Never push to main.\n"}),
        ("pin", {"words": "Use tabs."}),
        ("pin", {"words": "Never push to main."}),
        ("pin", {"words": "  "}),
    )
    kept_in = f"{ID}.jsonl.pins"
    both = {"pinned": ["Never push to main.", "Use tabs."], "kept_in": kept_in}
    assert answers[:3] == [
        (False, {"pinned": ["Never push to main."], "kept_in": kept_in}),
        (False, both),
        (False, both),
    ]
    assert answers[3] == (True, "No text to pin; give the text that must be kept.")
    assert transcript.read_bytes() == before
    assert transcript.with_name(kept_in).stat().st_mode & 0o777 == 0o600


async def test_what_is_asked_wrongly_gets_a_sentence_and_the_server_goes_on(project: Path):
    secret = project.parent / "secret.jsonl"
    secret.write_text('{"type":"user"}\n', encoding="utf-8")
    (project / "link.jsonl").symlink_to(secret)
    answers = await asked(
        project,
        ("context_usage", {"session": str(secret)}),
        ("context_usage", {"session": "link.jsonl"}),
        ("context_usage", {"session": "/etc/passwd"}),
        ("context_usage", {"session": "gone.jsonl"}),
        ("context_usage", {"session": "ffff"}),
        ("context_usage", {"session": ID[:6]}),
    )
    said = [text for _, text in answers[:5]]
    assert all(is_error for is_error, _ in answers[:5])
    assert "outside the folders that may be read" in said[0]
    assert "outside the folders that may be read" in said[1]
    assert said[2] == "/etc/passwd is not a session: sessions are .jsonl files."
    assert said[3] == "No session found at gone.jsonl."
    assert said[4].startswith("No session found whose id starts with 'ffff' in ")
    assert answers[5][1]["tokens"] == 123173


async def test_the_tools_and_their_descriptions_stay_cheap(project: Path):
    async with stdio_client(server(project)) as (read, write), ClientSession(read, write) as client:
        await client.initialize()
        tools = (await client.list_tools()).tools
    assert [tool.name for tool in tools] == [
        "context_usage",
        "audit",
        "why_cache_miss",
        "dry_run_compaction",
        "recall",
        "pin",
    ]
    # About a thousand tokens, which every request of the agent carries.
    assert sum(len(tool.model_dump_json(exclude_none=True)) for tool in tools) < 4_500
    assert [tool.name for tool in tools if not (tool.annotations and tool.annotations.read_only_hint)] == [
        "pin"
    ]
