"""The Python SDK over HTTP, as a client that knows nothing of the gateway: directly, observed and managed.

`make clients` does the same with other clients, in processes of their own.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import anthropic
import pytest
from gateway.lab import OpenLab

from everturn.twin.app import serve_twin
from everturn.twin.build import build_twin

FILES = 14
# The default policy compacts when the window is full; this one is full after ten files.
SETTINGS = {"window": 60_000, "max_tokens": 1000, "notes.enabled": False}
TOOLS = [
    {
        "name": name,
        "description": about,
        "input_schema": {"type": "object", "properties": {field: {"type": "string"}}},
    }
    for name, about, field in (
        ("Read", "Read a file.", "file_path"),
        ("Glob", "Find files.", "pattern"),
        ("Grep", "Search files.", "pattern"),
    )
]


class Ran(NamedTuple):
    answers: list[str]
    calls: list[dict[str, Any]]
    dollars: float
    largest: int


def run_tool(name: str, given: dict[str, Any]) -> str:
    if name == "Read":
        at = int(given["file_path"].removeprefix("part_").removesuffix(".py"))
        lines = (f"{n:6}\tdef helper_{at}_{n}(value): return value + {n}" for n in range(1, 250))
        return "\n".join(lines)
    return given["pattern"].removeprefix("**/") if name == "Glob" else "No matches"


def talk(url: str) -> tuple[list[str], list[dict[str, Any]]]:
    """One conversation with a tool loop, streamed, cached as the SDK caches."""
    client = anthropic.Anthropic(api_key="invented", base_url=url, max_retries=0)
    messages: list[Any] = []
    answers, calls = [], []
    for at in range(FILES):
        messages.append({"role": "user", "content": f"What does part_{at:02}.py do?"})
        while True:
            with client.messages.stream(
                model="claude-haiku-4-5", max_tokens=1000, messages=messages, tools=TOOLS,
                cache_control={"type": "ephemeral"},
            ) as stream:  # fmt: skip
                reply = stream.get_final_message()
            messages.append({"role": "assistant", "content": reply.content})
            called = [block for block in reply.content if block.type == "tool_use"]
            if not called:
                break
            calls += [{"name": block.name, "input": block.input} for block in called]
            results = [
                {"type": "tool_result", "tool_use_id": block.id, "content": run_tool(block.name, block.input)}
                for block in called
            ]
            messages.append({"role": "user", "content": results})
        answers.append("".join(block.text for block in reply.content if block.type == "text"))
    return answers, calls


@pytest.fixture
def twin() -> Iterator[tuple[Any, str]]:
    built = build_twin(clock="real")
    with serve_twin(built) as url:
        yield built, url


@pytest.mark.spec("GW-23")
def test_the_python_sdk_does_the_same_work_through_the_gateway_and_a_long_conversation_costs_less(
    twin: tuple[Any, str], lab: OpenLab, tmp_path: Path
):
    built, url = twin
    ran: dict[str, Ran] = {}
    for way in ("directly", "observe", "manage"):
        before = len(built.ledger())
        if way == "directly":
            answers, calls = talk(url)
        else:
            running = lab(url, way, mode=way, overrides=SETTINGS)
            answers, calls = talk(running.url)
            running.settle()
            assert (running.gateway.metrics.passed_through, running.gateway.metrics.degradations) == ({}, {})
        rows = built.ledger()[before:]
        assert {row["status"] for row in rows} == {200}
        kinds = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
        largest = max(sum(row["usage"][kind] for kind in kinds) for row in rows)
        ran[way] = Ran(answers, calls, sum(row["dollars"] for row in rows), largest)
    assert ran["directly"].answers[-1].startswith("Of part_13.py I read 249 lines")
    assert ran["observe"] == ran["directly"]
    assert ran["manage"].answers == ran["directly"].answers
    assert ran["manage"].largest < ran["directly"].largest / 1.2, json.dumps(
        [each.largest for each in ran.values()]
    )
    assert ran["manage"].dollars < ran["directly"].dollars
