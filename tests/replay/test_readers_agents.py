"""pi, Codex, Gemini CLI and Aider: small files by hand."""

import json
from typing import Any

import pytest
from builders import compute_view
from replay.small_files import lines, one, said

from everturn.history.edits import Compacted
from everturn.history.records import Usage
from everturn.replay.calls import iter_calls
from everturn.replay.sessions import ReplaySession, read_session


def _pi(role, content, at, **fields):
    message = {"role": role, "content": content, **fields}
    return {"type": "message", "timestamp": f"2025-11-20T23:33:{at:02d}.000Z", "message": message}


def _text(words):
    return [{"type": "text", "text": words}]


PI = [
    {"type": "session", "id": "s", "cwd": "/x", "provider": "anthropic", "modelId": "m"},
    _pi("user", _text("Read it."), 1),
    _pi(
        "assistant",
        [{"type": "toolCall", "id": "t1", "name": "read", "arguments": {"path": "a"}}],
        2,
        model="claude-sonnet-4-5",
        usage={"input": 3, "output": 9, "cacheRead": 100, "cacheWrite": 20},
    ),
    _pi("toolResult", _text("words"), 3, toolCallId="t1", toolName="read", isError=False),
    _pi("assistant", [], 4, model="gpt", usage={"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}),
    _pi("assistant", _text("Read."), 5, model="claude-sonnet-4-5"),
]


def test_a_pi_session_without_its_first_line_is_read_and_says_what_is_missing(tmp_path):
    whole, rest = one(tmp_path, lines(PI)), one(tmp_path, lines(PI[1:]), "rest.json")
    missing = ("the first line, which names the session, is missing",)
    assert (rest.format, rest.notes, rest.flaws) == ("pi", missing, missing)
    assert said(rest.threads[0]) == said(whole.threads[0])


@pytest.mark.parametrize(
    "written",
    [
        lines(PI),
        # One JSON value, as Gemini CLI writes it.
        json.dumps(
            {"sessionId": "s", "projectHash": "h", "messages": [{"type": "user", "content": "Read it."}]}
        ),
    ],
    ids=["lines", "one value"],
)
def test_a_byte_that_is_not_utf_8_is_replaced_and_hides_nothing_else(tmp_path, written):
    file = tmp_path / "damaged.json"
    file.write_bytes(written.encode().replace(b"Read it.", b"Read \xff it."))
    session = read_session(file)
    assert isinstance(session, ReplaySession), session
    expected = one(tmp_path, written.replace("Read it.", "Read \ufffd it."))
    assert said(session.threads[0]) == said(expected.threads[0])
    assert said(session.threads[0])[0] == ("user", ["Read \ufffd it."])


def test_a_pi_session_keeps_its_times_and_its_disjoint_counts(tmp_path):
    session = one(tmp_path, lines(PI))
    assert (session.format, session.model, session.notes) == ("pi", "claude-sonnet-4-5", ())
    assert said(session.threads[0]) == [
        ("user", ["Read it."]),
        ("assistant", [("t1", "read", {"path": "a"})]),
        ("user", [("t1", [{"type": "text", "text": "words"}])]),
        ("assistant", ["Read."]),
    ]
    (call,) = iter_calls(session.threads[0])
    assert call.usage == Usage(3, 20, 100, 9)
    assert session.threads[0].records[-1].timestamp == "2025-11-20T23:33:05.000Z"


def test_a_compaction_of_pi_keeps_what_it_kept(tmp_path):
    cut = {"type": "compaction", "summary": "We read it.", "firstKeptEntryIndex": 4, "tokensBefore": 175_004}
    session = one(tmp_path, lines([*PI, cut, _pi("user", _text("Go on."), 6)]))
    records = session.threads[0].records
    assert [record.edit.tokens_before for record in records if isinstance(record.edit, Compacted)] == [
        175_004
    ]
    shown = [record for record in compute_view(records).records if record.kind != "system"]
    assert [block.raw.decode() for record in shown for block in record.blocks] == [
        '{"type":"text","text":"We read it."}',
        '{"type":"text","text":"Read."}',
        '{"type":"text","text":"Go on."}',
    ]


def test_of_a_tree_of_pi_the_newest_path_counts(tmp_path):
    header, user, *_ = PI
    tree = [
        header,
        {**user, "id": "1", "parentId": None},
        {**_pi("assistant", _text("Left."), 2, model="m"), "id": "2", "parentId": "1"},
        {**_pi("assistant", _text("Kept."), 3, model="m"), "id": "3", "parentId": "1"},
    ]
    session = one(tmp_path, lines(tree))
    assert said(session.threads[0]) == [("user", ["Read it."]), ("assistant", ["Kept."])]
    assert session.notes == ("1 entries on abandoned branches",)


ITEMS = [
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "List."}]},
    {"type": "reasoning", "summary": [], "encrypted_content": "x"},
    {"type": "function_call", "name": "shell", "arguments": '{"command":["ls"]}', "call_id": "c1"},
    {"type": "function_call_output", "call_id": "c1", "output": "a.py"},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "One."}]},
]
CODEX_SAID = [
    ("user", ["List."]),
    ("assistant", [("c1", "shell", {"command": ["ls"]})]),
    ("user", [("c1", "a.py")]),
    ("assistant", ["One."]),
]


def _rollout():
    wrapped = [
        {"timestamp": "2025-10-01T10:00:00Z", "type": "response_item", "payload": item} for item in ITEMS
    ]
    used = {"input_tokens": 100, "cached_input_tokens": 30, "output_tokens": 5}
    counted = {
        "timestamp": "2025-10-01T10:00:01Z",
        "type": "event_msg",
        "payload": {"type": "token_count", "info": {"last_token_usage": used}},
    }
    echo = {"timestamp": "x", "type": "event_msg", "payload": {"type": "agent_message", "message": "One."}}
    empty = {"timestamp": "x", "type": "event_msg", "payload": {"type": "token_count", "info": None}}
    meta = {"timestamp": "x", "type": "session_meta", "payload": {"id": "s", "instructions": "Be brief."}}
    context = {"timestamp": "x", "type": "turn_context", "payload": {"model": "gpt-5"}}
    return [meta, context, *wrapped[:3], counted, *wrapped[3:], echo, empty]


def test_a_codex_rollout_says_everything_once_and_tells_usage(tmp_path):
    session = one(tmp_path, lines(_rollout()))
    assert (session.format, session.model, session.system) == ("codex", "gpt-5", "Be brief.")
    assert said(session.threads[0]) == CODEX_SAID
    assert [call.usage for call in iter_calls(session.threads[0])] == [Usage(70, 0, 30, 5)]


def test_the_window_of_a_codex_rollout_is_the_newest_that_it_reports(tmp_path):
    def event(**payload):
        return {"timestamp": "2025-10-01T10:00:02Z", "type": "event_msg", "payload": payload}

    started = event(type="task_started", model_context_window=128_000)
    counted = event(type="token_count", info={"model_context_window": 258_400})
    wrong = [event(type="task_started", model_context_window=each) for each in (None, True, -5, "1M", 10**40)]
    found = [
        one(tmp_path, lines([*_rollout(), *more])).window
        for more in ((), [started], [started, counted, *wrong])
    ]
    assert found == [0, 128_000, 258_400]


def test_the_bare_layout_of_codex_is_the_same_conversation(tmp_path):
    bare = [{"id": "s", "timestamp": "2025-08-01", "instructions": None}, {"record_type": "state"}, *ITEMS]
    session = one(tmp_path, lines(bare))
    assert session.format == "codex"
    assert said(session.threads[0]) == CODEX_SAID


def test_a_compacted_codex_rollout_goes_on_from_its_summary(tmp_path):
    cut = {"timestamp": "2025-10-01T11:00:00Z", "type": "compacted", "payload": {"message": "Listed."}}
    session = one(tmp_path, lines([*_rollout(), cut, _rollout()[2]]))
    shown = compute_view(session.threads[0].records).records
    assert [block.raw.decode() for record in shown for block in record.blocks] == [
        '{"type":"text","text":"Listed."}',
        '{"type":"text","text":"List."}',
    ]


def test_codexs_log_of_its_terminal_is_read_from_keys_and_messages(tmp_path):
    def key(code):
        event = f"KeyEvent {{ code: {code}, modifiers: KeyModifiers(0x0), kind: Press, state: 0 }}"
        return {"ts": "2025-08-10T03:12:28Z", "dir": "to_tui", "kind": "key_event", "event": event}

    def event(**message):
        payload = {"id": "1", "msg": message}
        return {"ts": "2025-08-10T03:12:30Z", "dir": "to_tui", "kind": "codex_event", "payload": payload}

    log = [
        {"ts": "2025-08-10T03:12:26Z", "dir": "meta", "kind": "session_start", "model": "gpt-oss:20b"},
        *(key(code) for code in ("Char('h')", "Char('u')", "Backspace", "Char('i')", "Enter")),
        event(type="task_started"),
        event(type="agent_message_delta", delta="Hel"),
        event(type="agent_message", message="Hello."),
    ]
    session = one(tmp_path, lines(log))
    assert (session.format, session.model) == ("codex-terminal", "gpt-oss:20b")
    assert said(session.threads[0]) == [("user", ["hi"]), ("assistant", ["Hello."])]


def test_gemini_cli_puts_results_behind_the_reply_that_called(tmp_path):
    call = {
        "id": "w-1",
        "name": "write_file",
        "args": {"path": "a"},
        "result": [{"functionResponse": {"response": {"output": "written"}}}],
        "status": "success",
    }
    messages = [
        {"id": "1", "timestamp": "2026-01-15T20:51:48Z", "type": "user", "content": "Write it."},
        {
            "id": "2",
            "timestamp": "2026-01-15T20:51:52Z",
            "type": "gemini",
            "content": "",
            "thoughts": [{"subject": "Hm"}],
            "tokens": {"input": 100, "output": 10, "cached": 40, "thoughts": 5},
            "model": "gemini-2.5-flash",
            "toolCalls": [call],
        },
        {"id": "3", "timestamp": "2026-01-15T20:51:53Z", "type": "info", "content": "Cancelled."},
    ]
    session = one(tmp_path, {"sessionId": "s", "projectHash": "h", "messages": messages})
    assert (session.format, session.model) == ("gemini-cli", "gemini-2.5-flash")
    assert said(session.threads[0]) == [
        ("user", ["Write it."]),
        ("assistant", [("w-1", "write_file", {"path": "a"})]),
        ("user", [("w-1", "written")]),
    ]
    (only,) = iter_calls(session.threads[0])
    assert only.usage == Usage(input_tokens=60, cache_read_input_tokens=40, output_tokens=15)


GEMINI_CHAT = {"sessionId": "s", "projectHash": "h", "startTime": "2026-06-01T10:00:00Z"}


def gemini_reply(id: str, words: str, **more: Any) -> dict[str, Any]:
    tokens = {"input": 100, "output": 10, "cached": 40, "thoughts": 5}
    return {"id": id, "type": "gemini", "content": [{"text": words}], "model": "g", "tokens": tokens, **more}


def test_a_gemini_chat_in_lines_is_read_with_what_was_written_again_and_rewound(tmp_path):
    answer = [{"functionResponse": {"id": "c1", "response": {"output": "a.py"}}}]
    call = {"id": "c1", "name": "ls", "args": {}, "status": "success", "result": answer}
    log = [
        GEMINI_CHAT,
        {"id": "1", "type": "user", "content": [{"text": "List them."}]},
        gemini_reply("2", "I will."),
        {"$set": {"lastUpdated": "2026-06-01T10:00:09Z"}},
        gemini_reply("2", "I will.", toolCalls=[call]),
        {"id": "2b", "type": "user", "content": answer},
        {"id": "3", "type": "user", "content": "Delete them."},
        gemini_reply("4", "No."),
        {"$rewindTo": "3"},
        {"id": "5", "type": "user", "content": "Thanks."},
        gemini_reply("6", "Welcome."),
    ]
    session = one(tmp_path, lines(log))
    assert (session.format, session.model) == ("gemini-cli", "g")
    assert said(session.threads[0]) == [
        ("user", ["List them."]),
        ("assistant", ["I will.", ("c1", "ls", {})]),
        ("user", [("c1", "a.py")]),
        ("user", ["Thanks."]),
        ("assistant", ["Welcome."]),
    ]
    assert [each.usage for each in iter_calls(session.threads[0])] == [
        Usage(input_tokens=60, cache_read_input_tokens=40, output_tokens=15)
    ] * 2
    assert [note for note in session.notes if "rewound" in note] == [
        "1 reply was rewound or replaced by a summary, and is not counted"
    ]


def test_a_gemini_chat_whose_messages_were_replaced_goes_on_with_the_new_ones(tmp_path):
    kept = [{"type": "user", "content": "A summary."}, {"type": "gemini", "content": "Understood."}]
    log = [GEMINI_CHAT, gemini_reply("1", "Old."), {"$set": {"messages": kept}}, gemini_reply("2", "New.")]
    session = one(tmp_path, lines(log))
    assert said(session.threads[0]) == [
        ("user", ["A summary."]),
        ("assistant", ["Understood."]),
        ("assistant", ["New."]),
    ]


def test_a_gemini_reply_that_a_notice_cut_in_two_is_one_reply(tmp_path):
    """The second part has the calls, and neither words nor tokens."""
    ran = {"id": "c1", "name": "run_shell_command", "args": {"command": "ls"}, "status": "success"}
    messages = [
        {"type": "user", "content": "Remove the file."},
        {
            "id": "g1", "type": "gemini", "content": "I'll remove it.", "model": "gemini-2.5-flash",
            "tokens": {"input": 900, "output": 9, "cached": 0},
        },
        {"id": "i1", "type": "info", "content": "An update is available."},
        {
            "id": "g2", "type": "gemini", "content": "", "model": "gemini-2.5-flash", "toolCalls": [ran],
            "tokens": {"input": 0, "output": 0, "cached": 0},
        },
        {
            "id": "g3", "type": "gemini", "content": "Done.", "model": "gemini-2.5-flash",
            "tokens": {"input": 950, "output": 3, "cached": 0},
        },
    ]  # fmt: skip
    session = one(tmp_path, {"sessionId": "s", "projectHash": "h", "messages": messages})
    (thread,) = session.threads
    assert [
        (record.kind, record.message_id, [block.kind for block in record.blocks]) for record in thread.records
    ] == [
        ("user", "", ["text"]),
        ("assistant", "g1", ["text"]),
        ("assistant", "g1", ["tool_use"]),
        ("user", "", ["tool_result"]),
        ("assistant", "g3", ["text"]),
    ]


AIDER_OLD = """
# aider chat started at 2024-05-21 21:31:46

> Models: gpt-4o with diff edit format, weak model gpt-3.5-turbo
> Git repo: .git with 6 files

#### Fix it.
#### Now.
> 34130 prompt tokens, 45 completion tokens, $0.171325 cost

Please add a.py.

> Add these files to the chat? yes
> 12,102 prompt tokens, 449 completion tokens, $0.067245 cost

Done.
"""
AIDER_NEW = """
# aider chat started at 2025-01-01 08:00:00

> Main model: claude-3-5-sonnet-20241022 with diff edit format

#### Fix it.

Done.

> Tokens: 4.2k sent, 1.1k cache write, 3.0k cache hit, 300 received. Cost: $0.02 message.
"""


def test_an_aider_chat_has_typed_printed_and_spoken_parts(tmp_path):
    session = one(tmp_path, AIDER_OLD, "chat.md")
    assert (session.format, session.model) == ("aider", "gpt-4o")
    assert said(session.threads[0]) == [
        ("user", ["Fix it.\nNow.\n"]),
        ("assistant", ["Please add a.py."]),
        ("user", ["Add these files to the chat? yes\n"]),
        ("assistant", ["Done."]),
    ]
    assert [call.usage for call in iter_calls(session.threads[0])] == [
        Usage(34_130, 0, 0, 45),
        Usage(12_102, 0, 0, 449),
    ]
    assert session.threads[0].records[0].timestamp == "2024-05-21T21:31:46.000Z"


def test_newer_aider_tells_usage_behind_the_reply_and_with_its_cache(tmp_path):
    session = one(tmp_path, AIDER_NEW, "chat.md")
    assert session.model == "claude-3-5-sonnet-20241022"
    assert [call.usage for call in iter_calls(session.threads[0])] == [Usage(100, 1_100, 3_000, 300)]
