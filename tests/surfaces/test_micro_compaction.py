"""Old tool results give way (MC)."""

import json
from itertools import pairwise

import pytest
from surfaces.desk import (
    HAIKU,
    SUMMARY,
    Recorder,
    assistant_line,
    call,
    result,
    text,
    tool,
    usage,
    user_line,
)

import everturn
from everturn.decide.options import Options
from everturn.decide.settings import BudgetSettings, DeclarativeSettings, MicroSettings
from everturn.decide.tools import ToolKinds
from everturn.errors import UpstreamError
from everturn.measure.capabilities import EXTENDED_TWIN, PLAIN
from everturn.session.upstream import drain

CLEARED = "[Old tool result content cleared]"
CODE = "line of code\n" * 400
READ = tool("Read", lambda given: CODE)
ASK = tool("AskUserQuestion", lambda given: CODE)


def results(body):
    """The results that a request carries, by the id of their call."""
    blocks = [block for message in body["messages"] for block in message["content"]]
    return {block["tool_use_id"]: block["content"] for block in blocks if block["type"] == "tool_result"}


def cleared(body):
    return [name for name, content in results(body).items() if CLEARED in json.dumps(content)]


@pytest.mark.spec("MC-3", "MC-6", "MC-7")
def test_an_hour_of_silence_clears_all_but_the_newest_five_results(desk):
    with desk.open(tools=[READ]) as session:
        desk.use_tool(session, 8)
        before = desk.path.read_bytes()
        desk.twin.advance(3_601)
        desk.talk(session, 1)
    assert cleared(desk.bodies[-1]) == [f"toolu_Read_{n}" for n in range(3)]
    calls = [
        block["id"]
        for message in desk.bodies[-1]["messages"]
        for block in message["content"]
        if block["type"] == "tool_use"
    ]
    assert calls == [f"toolu_Read_{n}" for n in range(8)]
    assert desk.path.read_bytes().startswith(before)
    [event] = desk.heard("MicroCompacted")
    assert (event.kind, event.results) == ("time", 3)
    assert event.tokens_saved == event.tokens_before - event.tokens_after > 3_000


@pytest.mark.spec("MC-6")
def test_an_hour_exactly_clears_nothing(desk):
    with desk.open(tools=[READ]) as session:
        desk.use_tool(session, 8)
        desk.twin.advance(3_600)
        desk.talk(session, 1)
    assert cleared(desk.bodies[-1]) == []


@pytest.mark.spec("MC-6")
def test_a_sub_agent_is_not_cleared_by_time(desk):
    with desk.open(tools=[READ], source="agent:explore") as session:
        desk.use_tool(session, 8)
        desk.twin.advance(3_601)
        desk.talk(session, 1)
    assert cleared(desk.bodies[-1]) == []


@pytest.mark.spec("MC-6")
@pytest.mark.parametrize("stamp", ["2027-01-01T00:00:00.000Z", "yesterday"])
def test_a_clock_that_goes_backwards_or_cannot_be_read_clears_nothing(desk, stamp):
    lines = [user_line("Read them.")]
    for n in range(8):
        lines.append(assistant_line(call(f"toolu_{n}", file_path="a"), id=f"msg_{n}", timestamp=stamp))
        lines.append(user_line([result(f"toolu_{n}", CODE)], timestamp=stamp))
    desk.write(*lines, assistant_line(text("Done."), id="msg_9", timestamp=stamp))
    assert cleared(desk.send_once(tools=[READ])) == []


@pytest.mark.spec("MC-3", "PC-17")
def test_what_was_cleared_stays_cleared_in_the_same_bytes_and_is_not_counted_again(desk):
    with desk.open(tools=[READ]) as session:
        desk.use_tool(session, 8)
        desk.twin.advance(3_601)
        desk.talk(session, 1)
        desk.twin.advance(3_601)
        desk.talk(session, 1)
    first, second = ({name: results(body)[name] for name in cleared(body)} for body in desk.bodies[-2:])
    assert json.dumps(first) == json.dumps(second)
    assert len(desk.heard("MicroCompacted")) == 1


class RememberingRead:
    """A program's own read tool: it does not send a file twice while the model can still see it."""

    def __init__(self):
        self.shown = set()
        self.tool = tool("Read", self)

    def __call__(self, given):
        path = given["file_path"]
        if path in self.shown:
            return "unchanged"
        self.shown.add(path)
        return CODE

    def heard(self, event):
        self.shown.difference_update(getattr(event, "files", ()))


@pytest.mark.spec("MC-4")
def test_a_program_is_told_which_reads_are_gone_so_that_it_reads_them_for_real_again(desk):
    read = RememberingRead()
    with desk.open(tools=[read.tool], listen=read.heard) as session:
        desk.use_tool(session, 8)
        desk.twin.advance(3_601)
        # 0.py was cleared, 7.py is still there.
        for n in (0, 7):
            desk.twin.script({"content": [call(f"again_{n}", file_path=f"{n}.py")]}, "Looked again.")
            session.send(f"Look at {n}.py again.")
    again = {name: content for name, content in results(desk.bodies[-1]).items() if "again" in name}
    assert again == {"again_0": CODE, "again_7": "unchanged"}


@pytest.mark.moves_cache_prefix(reason="old results are cleared between the reads")
@pytest.mark.spec("MC-4", "MC-18")
@pytest.mark.parametrize(
    ("idle", "again"), [("1h", "File unchanged since you read it"), ("0s", "line_1 = 1")]
)
def test_the_chat_reads_a_file_for_real_once_its_first_read_was_cleared(chat, twin, idle, again):
    (chat.project / "long.py").write_text("".join(f"line_{n} = {n}\n" for n in range(40)))
    (chat.project / "other.py").write_text("x = 1\n")
    names = ["long.py", "other.py", "long.py"]
    reads = [{"content": [call(f"toolu_{at}", file_path=name)]} for at, name in enumerate(names)]
    twin.script(*reads, "Read.")
    bodies = chat("Read them.", EVERTURN_MICRO_TIME_IDLE=idle, EVERTURN_MICRO_TIME_KEEP="1").bodies
    shown = results(bodies[-1])
    assert again in json.dumps(shown["toolu_2"])
    assert (cleared(bodies[-1]) == []) is (idle == "1h")


@pytest.mark.spec("MC-4")
def test_reads_that_were_deleted_in_the_cache_are_told_too(extended_desk):
    desk = extended_desk
    with desk.open(tools=[READ], capabilities=EXTENDED_TWIN) as session:
        desk.use_tool(session, 13)
    [event] = desk.heard("MicroCompacted")
    assert (event.kind, event.files) == ("cached", tuple(f"{n}.py" for n in range(7)))


@pytest.mark.spec("MC-5")
def test_after_a_clearing_the_warning_rests_until_the_next_size_is_known(desk):
    """The request after the clearing fails first, so that there is a moment in which no size is known."""

    def warned():
        levels = session.context().levels
        return levels.above_warning, levels.above_error

    much = "The login test waits for the token. " * 14_500
    lines = [user_line(much)]
    for n in range(8):
        lines.append(assistant_line(call(f"toolu_{n}", file_path=f"{n}.py"), id=f"msg_{n}"))
        lines.append(user_line([result(f"toolu_{n}", CODE)]))
    desk.write(*lines, assistant_line(text("Done."), id="msg_9", usage=usage(165_000)))
    with desk.open(tools=[READ], policy="claude-code") as session:
        assert warned() == (True, True)
        desk.twin.advance(7_200)
        desk.twin.faults("server_error")
        with pytest.raises(UpstreamError):
            session.send("Go on.")
        assert [event.kind for event in desk.heard("MicroCompacted")] == ["time"]
        assert session.context().size.next_request > session.context().limits.warning
        assert warned() == (False, False)
        desk.twin.script("Well.")
        session.send()
        assert desk.twin.ledger[-1]["usage"]["cache_creation_input_tokens"] > 147_000
        assert warned() == (True, True)
    assert len(desk.bodies) == 2


@pytest.mark.spec("MC-11")
@pytest.mark.parametrize("streams", [False, True])
def test_what_each_deletion_saved_is_the_rise_of_the_providers_total(extended_desk, monkeypatch, streams):
    """Switched on by the configuration alone, as a person does who knows that the provider can."""
    monkeypatch.setenv("EVERTURN_PROVIDER_NAME", "twin+cache_edits")
    desk, replies = extended_desk, []
    with desk.open(tools=[READ]) as session:
        for at in range(26):
            reply = {"content": [call(f"toolu_{at}", file_path=f"{at}.py")]}
            desk.twin.script(reply, "Looked.")
            words = f"Look at {at}."
            replies.append(drain(session.stream(words)) if streams else session.send(words))
    saved = [reply.exchange.settled.deletion_saved for reply in replies]
    totals = [entry["usage"].get("cache_deleted_input_tokens", 0) for entry in desk.twin.ledger]
    rises = [after - before for before, after in pairwise([0, *totals])]
    told = [event for event in desk.heard("MicroCompacted") if event.kind == "cached"]
    assert len(told) >= 2
    # Every rise belongs to one of the two calls of a turn.
    by_turn = [sum(rises[at : at + 2]) for at in range(0, len(rises), 2)]
    assert [rise for rise in by_turn if rise] == [tokens for tokens in saved if tokens]
    assert sum(saved) == totals[-1] > 0


@pytest.mark.spec("MC-20")
def test_deletions_end_as_soon_as_the_usage_shows_that_their_cache_is_gone(extended_desk):
    desk = extended_desk
    with desk.open(tools=[READ], capabilities=EXTENDED_TWIN) as session:
        desk.use_tool(session, 13)
        assert "cache_edits" in json.dumps(desk.bodies[-1])
        desk.twin.faults("lost_cache")
        desk.talk(session, 1)
        assert desk.twin.ledger[-1]["usage"]["cache_read_input_tokens"] == 0
        desk.talk(session, 1)
    assert "cache_edits" not in json.dumps(desk.bodies[-1])
    assert "the last request read nothing from the cache that they were made in" in desk.path.read_text()


@pytest.mark.spec("MC-2")
def test_results_that_cannot_be_had_again_are_kept_and_own_tools_are_sorted_by_pattern(desk):
    own = tool("fetch_rows", lambda given: CODE)
    kinds = ToolKinds(reproducible=("fetch_*",))
    with desk.open(tools=[ASK, own], options=Options(tools=kinds)) as session:
        desk.use_tool(session, 6, "AskUserQuestion")
        desk.use_tool(session, 7, "fetch_rows")
        desk.twin.advance(3_601)
        desk.talk(session, 1)
    assert cleared(desk.bodies[-1]) == ["toolu_fetch_rows_0", "toolu_fetch_rows_1"]


@pytest.mark.spec("MC-1", "MC-5", "MC-12")
def test_in_a_turn_after_an_idle_hour_nothing_is_deleted_in_the_cache(extended_desk):
    desk = extended_desk
    with desk.open(tools=[READ], capabilities=EXTENDED_TWIN) as session:
        desk.use_tool(session, 13)
        desk.twin.advance(3_601)
        desk.talk(session, 1)
        desk.talk(session, 1)
    assert [event.kind for event in desk.heard("MicroCompacted")] == ["cached", "time"]
    # The edits of the old cache are gone with it.
    assert "cache_edits" in json.dumps(desk.bodies[-3])
    assert "cache_edits" not in json.dumps(desk.bodies[-1])
    assert len(cleared(desk.bodies[-1])) == 8


@pytest.mark.spec("MC-12")
def test_a_sub_agent_deletes_nothing_in_the_cache(extended_desk):
    with extended_desk.open(tools=[READ], capabilities=EXTENDED_TWIN, source="agent:explore") as session:
        extended_desk.use_tool(session, 14)
    assert all("cache_edits" not in json.dumps(body) for body in extended_desk.bodies)


@pytest.mark.spec("MC-12")
def test_a_compaction_ends_the_deletions(extended_desk):
    desk = extended_desk
    with desk.open(tools=[READ], capabilities=EXTENDED_TWIN) as session:
        desk.use_tool(session, 13)
        assert "cache_edits" in json.dumps(desk.bodies[-1])
        desk.twin.script(SUMMARY)
        session.compact()
        desk.use_tool(session, 2, first=20)
    assert "cache_edits" not in json.dumps(desk.bodies[-1])


@pytest.mark.spec("MC-9", "OV-4")
def test_a_provider_that_cannot_delete_is_never_asked_to(desk):
    with desk.open(tools=[READ]) as session:
        desk.use_tool(session, 14)
    assert all("cache_edits" not in json.dumps(body) for body in desk.bodies)
    assert all("cache_reference" not in json.dumps(body) for body in desk.bodies)


# ── by the API itself ────────────────────────────────────────────────────────────────────────────


KEEP_ALL = {"type": "clear_thinking_20251015", "keep": "all"}


@pytest.mark.spec("MC-13")
def test_all_thinking_is_kept_while_the_session_is_in_use_and_that_edit_comes_first(desk):
    thinking = {"type": "enabled", "budget_tokens": 2_000}
    body = desk.send_once(thinking=thinking)
    assert body["context_management"] == {"edits": [KEEP_ALL]}
    body = desk.send_once(thinking=thinking, tools=[READ], micro={"declarative": {"tool_results": True}})
    kinds = [edit["type"] for edit in body["context_management"]["edits"]]
    assert kinds == ["clear_thinking_20251015", "clear_tool_uses_20250919"]
    assert desk.twin.ledger[-1]["status"] == 200


@pytest.mark.spec("MC-13", "TL-1")
def test_after_an_idle_hour_only_the_last_turn_keeps_its_thinking(desk):
    def thoughts(body):
        blocks = [block for message in body["messages"] for block in message["content"]]
        return [block["thinking"] for block in blocks if block["type"] == "thinking"]

    def ask(n):
        thought = {"type": "thinking", "thinking": f"Thought {n}. " * 20}
        desk.twin.script({"content": [thought, text(f"Answer {n}.")]})
        session.send(f"Question {n}.")

    with desk.open(model="claude-opus-4-6", thinking={"type": "adaptive"}) as session:
        for n in range(4):
            ask(n)
        assert len(thoughts(desk.bodies[-1])) == 3
        desk.twin.advance(3_600)
        ask(4)
        assert len(thoughts(desk.bodies[-1])) == 4
        desk.twin.advance(3_601)
        ask(5)
        ask(6)
    kept = [each.partition(".")[0] for each in thoughts(desk.bodies[-2])]
    assert kept == ["Thought 4"]
    assert [each.partition(".")[0] for each in thoughts(desk.bodies[-1])] == ["Thought 4", "Thought 5"]
    [event] = desk.heard("MicroCompacted")
    assert (event.kind, event.results, event.why) == ("thinking", 0, "the cache is cold")
    assert event.tokens_saved == event.tokens_before - event.tokens_after > 100
    assert {entry["status"] for entry in desk.twin.ledger} == {200}


@pytest.mark.spec("MC-13")
@pytest.mark.parametrize(
    ("thinking", "betas", "edits"),
    [
        ({"type": "enabled", "budget_tokens": 2_000}, [], [KEEP_ALL]),
        ({"type": "enabled", "budget_tokens": 2_000}, ["redact-thinking-2026-02-12"], None),
        ({"type": "disabled"}, [], None),
    ],
)
def test_a_caller_whose_replies_hold_no_readable_thinking_gets_no_strategy_for_it(
    twin, tmp_path, thinking, betas, edits
):
    bodies = []
    held = everturn.middleware(
        folder=tmp_path, clock=twin.twin.clock.now, micro={"declarative": {"enabled": True}}
    )
    client = twin.client(middleware=[held, Recorder(bodies)])
    twin.script("Well.")
    client.beta.messages.create(
        model=HAIKU,
        max_tokens=4_000,
        thinking=thinking,
        betas=betas,
        messages=[{"role": "user", "content": "Hi."}],
    )
    held.close()
    assert bodies[-1].get("context_management") == (edits and {"edits": edits})


@pytest.mark.spec("MC-15")
def test_what_the_api_cleared_is_recorded_shown_and_not_taken_for_a_break(desk):
    declarative = {"tool_results": True, "trigger": 8_000, "target": 4_000, "thinking": False}
    micro = {"steps": [], "declarative": declarative}
    # Breaks are not reported for Haiku (CB-9).
    with desk.open(tools=[READ], model="claude-sonnet-4-6", micro=micro) as session:
        desk.use_tool(session, 10)
    applied = [edit for entry in desk.twin.ledger for edit in entry["applied_edits"]]
    assert applied
    recorded = [line["everturn"] for line in desk.lines() if line.get("subtype") == "everturn_servercleared"]
    assert [(each["count"], each["tokens"]) for each in recorded] == [
        (edit["cleared_tool_uses"], edit["cleared_input_tokens"]) for edit in applied
    ]
    shown = {event.why for event in desk.heard("PredictionMissed")}
    first = applied[0]
    said = f"the API cleared {first['cleared_tool_uses']} tool use"
    assert any(why.startswith(said) and f"{first['cleared_input_tokens']:,}" in why for why in shown)
    assert {event.verdict for event in desk.heard("PredictionMissed")} == {"cleared by the API"}
    assert desk.heard("CacheBroken") == []


@pytest.mark.spec("MC-14")
def test_tool_results_and_inputs_are_declared_with_their_numbers_each_by_its_switch(desk):
    def edits(**switches):
        micro = MicroSettings(declarative=DeclarativeSettings(thinking=False, **switches))
        body = desk.send_once(tools=[READ, tool("Write")], options=Options(micro=micro))
        return body.get("context_management", {}).get("edits", [])

    numbers = {
        "trigger": {"type": "input_tokens", "value": 180_000},
        "clear_at_least": {"type": "input_tokens", "value": 140_000},
    }
    assert edits() == []
    [only_results] = edits(tool_results=True)
    [only_inputs] = edits(tool_inputs=True)
    for edit in (only_results, only_inputs):
        assert edit["type"] == "clear_tool_uses_20250919"
        assert {name: edit[name] for name in numbers} == numbers
    assert "clear_tool_inputs" not in only_results
    assert only_inputs["clear_tool_inputs"] == ["Write"]


@pytest.mark.spec("MC-14", "OV-4")
def test_a_provider_without_context_editing_is_declared_nothing(desk):
    micro = MicroSettings(declarative=DeclarativeSettings(tool_results=True))
    body = desk.send_once(tools=[READ], options=Options(micro=micro), capabilities=PLAIN)
    assert "context_management" not in body
    assert "cache_control" not in json.dumps(body)


# ── by size ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("MC-16", "OV-4")
def test_without_a_cache_results_beyond_the_budget_are_cleared_except_the_last_three(desk):
    with desk.open(tools=[READ], capabilities=PLAIN) as session:
        desk.use_tool(session, 50)
    # 1,300 tokens each: 40,000 are reached by 31, and at least 20,000 must be saved.
    events = desk.heard("MicroCompacted")
    assert {event.kind for event in events} == {"budget"}
    assert all(event.tokens_saved >= 20_000 for event in events)
    kept = [name for name in results(desk.bodies[-1]) if name not in cleared(desk.bodies[-1])]
    assert kept[-3:] == [f"toolu_Read_{n}" for n in (47, 48, 49)]
    assert cleared(desk.bodies[-1])[0] == "toolu_Read_0"


@pytest.mark.spec("MC-16", "CF-3")
def test_frugal_clears_by_size_where_claude_code_keeps_the_cache(desk):
    micro = MicroSettings(budget=BudgetSettings(tokens=8_000, save_at_least=4_000, where="everywhere"))
    with desk.open(tools=[READ], options=Options(policy="frugal", micro=micro)) as session:
        desk.use_tool(session, 12)
    assert {event.kind for event in desk.heard("MicroCompacted")} == {"budget"}


# ── large results ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("MC-17")
def test_a_result_that_is_too_large_goes_to_a_file_and_stays_so(desk):
    large = tool("Bash", lambda given: "output\n" * 10_000)
    with desk.open(tools=[large]) as session:
        desk.use_tool(session, 1, "Bash")
        desk.talk(session, 1)
    [file] = [path for path in desk.folder.rglob("*") if path.is_file() and path.stat().st_size == 70_000]
    assert file.read_text() == "output\n" * 10_000
    shown = [json.dumps(results(body)["toolu_Bash_0"]) for body in desk.bodies[1:]]
    assert str(file) in shown[0]
    assert len(shown[0]) < 4_000
    assert set(shown) == {shown[0]}


@pytest.mark.spec("MC-17")
def test_results_of_one_message_share_a_limit_and_the_largest_go_first(desk):
    sizes = {"a": 49_000, "b": 48_000, "c": 47_000, "d": 46_000, "e": 45_000}
    bash = tool("Bash", lambda given: "x" * sizes[given["file_path"]])
    desk.twin.script({"content": [call(f"toolu_{name}", "Bash", file_path=name) for name in sizes]}, "Done.")
    with desk.open(tools=[bash]) as session:
        session.send("Run all of them.")
    lengths = {name: len(json.dumps(content)) for name, content in results(desk.bodies[-1]).items()}
    assert lengths["toolu_a"] < 4_000
    assert {name for name, length in lengths.items() if length > 40_000} == {f"toolu_{n}" for n in "bcde"}


@pytest.mark.spec("MC-21")
def test_a_file_that_was_read_stays_in_view_at_a_size_at_which_a_commands_output_is_moved(desk):
    read, bash = (tool(name, lambda given: "output\n" * 10_000) for name in ("Read", "Bash"))
    with desk.open(tools=[read, bash]) as session:
        desk.use_tool(session, 1, "Read")
        desk.use_tool(session, 1, "Bash")
    shown = results(desk.bodies[-1])
    assert shown["toolu_Read_0"] == "output\n" * 10_000
    assert len(json.dumps(shown["toolu_Bash_0"])) < 4_000
    [event] = desk.heard("MicroCompacted")
    assert (event.kind, event.results) == ("oversize", 1)


@pytest.mark.spec("MC-21")
def test_files_count_towards_the_limit_of_their_message(desk):
    sizes = {"a": 90_000, "b": 80_000, "c": 70_000}
    read = tool("Read", lambda given: "x" * sizes[given["file_path"]])
    desk.twin.script({"content": [call(f"toolu_{name}", file_path=name) for name in sizes]}, "Done.")
    with desk.open(tools=[read]) as session:
        session.send("Read all of them.")
    shown = {name: len(json.dumps(content)) for name, content in results(desk.bodies[-1]).items()}
    assert {name for name, length in shown.items() if length > 60_000} == {"toolu_b", "toolu_c"}
