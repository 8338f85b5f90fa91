"""Plain lists of messages, tau-bench, SWE-agent, mini-SWE-agent and OpenHands: small files by hand."""

import json
from pathlib import Path
from typing import Any

import pytest
from replay.small_files import lines, one, said

from everturn.history.blocks import fields_of
from everturn.history.records import Usage
from everturn.replay.calls import iter_calls
from everturn.replay.sessions import ReplaySession, Unreadable, read_session, read_sessions

OPENAI = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "List it."}]},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": '{"at":"."}'}}
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "a.py"},
    {"role": "assistant", "content": "One file."},
]
ANTHROPIC = [
    {"role": "user", "content": "List it."},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "ls", "input": {"at": "."}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "a.py"}]},
    {"role": "assistant", "content": [{"type": "text", "text": "One file."}]},
]
# What both of them are here.
LISTED = [
    ("user", ["List it."]),
    ("assistant", [("c1", "ls", {"at": "."})]),
    ("user", [("c1", "a.py")]),
    ("assistant", ["One file."]),
]


@pytest.mark.parametrize("spell", [json.dumps, lines, lambda m: json.dumps({"messages": m})])
def test_a_list_of_openai_messages_is_read_in_every_spelling(tmp_path, spell):
    session = one(tmp_path, spell(OPENAI))
    assert (session.format, session.system) == ("openai-messages", "Be brief.")
    assert said(session.threads[0]) == LISTED


@pytest.mark.parametrize("spell", [json.dumps, lines, lambda m: json.dumps({"messages": m})])
def test_a_list_of_anthropic_messages_is_read_in_every_spelling(tmp_path, spell):
    session = one(tmp_path, spell(ANTHROPIC))
    assert session.format == "anthropic-messages"
    assert said(session.threads[0]) == LISTED


def test_a_request_body_gives_its_system_prompt_tools_and_model(tmp_path):
    body = {
        "model": "claude-opus-4-5",
        "system": [{"type": "text", "text": "Be brief."}],
        "tools": [{"name": "ls"}],
        "messages": ANTHROPIC,
    }
    session = one(tmp_path, body)
    assert (session.system, session.tools, session.model) == (
        "Be brief.",
        '[{"name":"ls"}]',
        "claude-opus-4-5",
    )


def test_lines_of_request_bodies_are_a_session_each(tmp_path):
    file = tmp_path / "many.jsonl"
    file.write_text(lines([{"messages": ANTHROPIC}, {"messages": ANTHROPIC[:2]}]), encoding="utf-8")
    found = [each for each in read_sessions([file]) if isinstance(each, ReplaySession)]
    assert [each.name for each in found] == ["many#1", "many#2"]
    assert [len(each.threads[0].records) for each in found] == [4, 2]


@pytest.mark.spec("RP-2")
def test_files_without_times_go_on_in_stated_steps_from_a_fixed_start(tmp_path):
    session = one(tmp_path, OPENAI)
    assert [record.timestamp for record in session.threads[0].records] == [
        "2025-01-01T00:00:00.000Z",
        "2025-01-01T00:00:30.000Z",
        "2025-01-01T00:01:00.000Z",
        "2025-01-01T00:01:30.000Z",
    ]
    assert session.notes == ("the file has no times: 30 s between calls assumed",)


@pytest.mark.spec("RP-2")
def test_a_call_has_everything_before_it_as_input_also_where_no_usage_is_known(tmp_path):
    session = one(tmp_path, OPENAI)
    found = [*iter_calls(session.threads[0], "all")]
    assert [(call.number, len(call.messages), call.usage) for call in found] == [
        (1, 1, Usage()),
        (2, 3, Usage()),
    ]
    assert [*iter_calls(session.threads[0])] == []


def test_openai_counts_become_disjoint(tmp_path):
    usage = {"prompt_tokens": 100, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 60}}
    session = one(tmp_path, [*OPENAI[:4], {**OPENAI[4], "usage": usage}])
    reply = session.threads[0].records[-1].reply
    assert reply is not None
    assert reply.usage == Usage(input_tokens=40, cache_read_input_tokens=60, output_tokens=7)


def test_a_call_id_that_comes_again_is_another_call(tmp_path):
    session = one(tmp_path, [*OPENAI, {"role": "user", "content": "Again."}, *OPENAI[2:]])
    calls_made = [
        block.call for record in session.threads[0].records for block in record.blocks if block.is_call
    ]
    answered = [
        block.call for record in session.threads[0].records for block in record.blocks if block.is_result
    ]
    assert calls_made == answered == ["c1", "c1-2"]


def test_a_result_without_its_call_is_words_of_the_user(tmp_path):
    session = one(tmp_path, [OPENAI[0], OPENAI[1], {"role": "tool", "tool_call_id": "x", "content": "lost"}])
    assert said(session.threads[0]) == [("user", ["List it."]), ("user", ["lost"])]


def test_pictures_of_openai_messages_are_images(tmp_path):
    parts = [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
    ]
    session = one(tmp_path, [{"role": "system", "content": "x"}, {"role": "user", "content": parts}])
    sources = [fields_of(block)["source"] for block in session.threads[0].records[0].blocks]
    assert sources == [
        {"type": "base64", "media_type": "image/png", "data": "AAAA"},
        {"type": "url", "url": "https://example.com/a.png"},
    ]


def test_one_file_of_tau_bench_is_many_sessions_each_opened_by_its_path(tmp_path):
    file = tmp_path / "airline.json"
    runs = [{"task_id": n, "trial": 1, "traj": OPENAI, "reward": 0.0} for n in (0, 1)]
    file.write_text(json.dumps(runs), encoding="utf-8")
    found = [each for each in read_sessions([file]) if isinstance(each, ReplaySession)]
    assert [(each.format, each.name) for each in found] == [
        ("tau-bench", "airline#task0-trial1"),
        ("tau-bench", "airline#task1-trial1"),
    ]
    assert [read_session(Path(each.path)) for each in found] == found
    assert read_session(file) == Unreadable(
        str(file), f"the file holds 2 sessions; name one, for example {found[0].path}"
    )


MINI = {
    "trajectory_format": "mini-swe-agent-1",
    "info": {"config": {"model": {"model_name": "gemini-3"}}},
    "messages": [
        {"role": "system", "content": "You have a shell."},
        {"role": "user", "content": "Fix it."},
        {
            "role": "assistant",
            "content": "THOUGHT: look.\n\n```bash\nls -la\n```",
            "extra": {
                "response": {"id": "gen-1", "created": 1763511127, "usage": {"prompt_tokens": 50}},
            },
        },
        {"role": "user", "content": "<returncode>0</returncode>"},
        {"role": "assistant", "content": "```bash\na\n```\n```bash\nb\n```"},
        {"role": "user", "content": "EXACTLY ONE action, please."},
    ],
}


def test_mini_swe_agents_commands_are_calls_and_two_of_them_are_none(tmp_path):
    session = one(tmp_path, MINI)
    assert (session.format, session.system, session.model) == (
        "mini-swe-agent",
        "You have a shell.",
        "gemini-3",
    )
    assert said(session.threads[0]) == [
        ("user", ["Fix it."]),
        ("assistant", ["THOUGHT: look.\n\n", ("run-2", "bash", {"command": "ls -la"})]),
        ("user", [("run-2", "<returncode>0</returncode>")]),
        ("assistant", ["```bash\na\n```\n```bash\nb\n```"]),
        ("user", ["EXACTLY ONE action, please."]),
    ]
    reply = session.threads[0].records[1]
    assert (reply.timestamp, reply.message_id) == ("2025-11-19T00:12:07.000Z", "gen-1")


def test_a_bare_list_of_mini_swe_agent_is_known_by_its_commands(tmp_path):
    session = one(tmp_path, MINI["messages"])
    assert session.format == "mini-swe-agent"
    assert [
        block.call for record in session.threads[0].records for block in record.blocks if block.is_call
    ] == ["run-2"]


def test_swe_agents_actions_are_calls_in_words_and_in_tool_calls(tmp_path):
    worded = [
        {"role": "system", "content": "Shell.", "agent": "primary"},
        {"role": "user", "content": "Fix it.", "agent": "primary"},
        {
            "role": "assistant",
            "content": "Look.\n```\nls\n```",
            "thought": "Look.",
            "action": "ls\n",
            "agent": "primary",
        },
        {"role": "user", "content": "a.py", "agent": "primary"},
    ]
    called = [
        *worded[:2],
        {
            "role": "assistant",
            "content": "Look.",
            "action": "ls",
            "agent": "primary",
            "tool_calls": [{"id": "c9", "function": {"name": "bash", "arguments": '{"command":"ls"}'}}],
        },
        {"role": "tool", "content": "a.py", "tool_call_ids": ["c9"], "agent": "primary"},
    ]
    first = one(tmp_path, {"trajectory": [], "history": worded}, "a.traj")
    second = one(tmp_path, {"trajectory": [], "history": called, "replay_config": "{}"}, "b.traj")
    assert (first.format, second.format) == ("swe-agent", "swe-agent")
    assert said(first.threads[0])[1:] == [
        ("assistant", ["Look.", ("run-2", "bash", {"command": "ls"})]),
        ("user", [("run-2", "a.py")]),
    ]
    assert said(second.threads[0])[1:] == [
        ("assistant", ["Look.", ("c9", "bash", {"command": "ls"})]),
        ("user", [("c9", "a.py")]),
    ]


def _openhands_event(id: int, **fields: Any) -> dict[str, Any]:
    return {"id": id, "timestamp": f"2025-04-30T16:32:{id:02d}", **fields}


def test_openhands_events_are_replies_and_results(tmp_path):
    response = {
        "id": "r1",
        "model": "m",
        "choices": [
            {
                "message": {
                    "content": "Looking.",
                    "tool_calls": [
                        {"id": "t1", "function": {"name": "bash", "arguments": '{"command":"ls"}'}},
                        {"id": "t2", "function": {"name": "bash", "arguments": '{"command":"pwd"}'}},
                    ],
                }
            }
        ],
    }
    made = [
        {
            "function_name": "bash",
            "tool_call_id": id,
            "model_response": response,
            "total_calls_in_response": 2,
        }
        for id in ("t1", "t2")
    ]
    history = [
        _openhands_event(
            0, source="agent", action="system", args={"content": "Be good.", "tools": [{"n": 1}]}
        ),
        _openhands_event(1, source="user", action="message", args={"content": "Fix it."}),
        _openhands_event(2, source="user", action="recall", args={"query": "Fix it."}),
        _openhands_event(3, source="agent", action="run", args={}, tool_call_metadata=made[0]),
        _openhands_event(4, source="agent", action="run", args={}, tool_call_metadata=made[1]),
        _openhands_event(5, source="agent", observation="run", content="a.py", cause=3),
        _openhands_event(6, source="agent", observation="error", content="no", cause=4),
    ]
    usages = [{"response_id": "r1", "prompt_tokens": 90, "cache_read_tokens": 40, "completion_tokens": 5}]
    run = {"instance_id": "x-1", "history": history, "metrics": {"token_usages": usages}}
    session = one(tmp_path, run)
    assert (session.format, session.system, session.tools) == ("openhands", "Be good.", '[{"n":1}]')
    assert said(session.threads[0]) == [
        ("user", ["Fix it."]),
        ("assistant", ["Looking.", ("t1", "bash", {"command": "ls"}), ("t2", "bash", {"command": "pwd"})]),
        ("user", [("t1", "a.py")]),
        ("user", [("t2", "no")]),
    ]
    assert fields_of(session.threads[0].records[-1].blocks[0])["is_error"] is True
    (call,) = iter_calls(session.threads[0])
    assert call.usage == Usage(input_tokens=50, cache_read_input_tokens=40, output_tokens=5)
    found = read_sessions([_written(tmp_path / "output.jsonl", lines([run, run | {"instance_id": "x-2"}]))])
    assert [each.path.rpartition("#")[2] for each in found] == ["x-1", "x-2"]


def _written(file: Path, text: str) -> Path:
    file.write_text(text, encoding="utf-8")
    return file
