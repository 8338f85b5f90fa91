"""What a session does for the provider's cache, seen in its requests and in the twin's ledger (PC)."""

import json

import pytest
from surfaces.desk import HAIKU, RULES, SUMMARY, call, marked, text, tool, words

import everturn
from everturn.measure.capabilities import EXTENDED_TWIN
from everturn.view.system_prompt import SystemPromptSections

READ = tool("Read", lambda given: "line of code\n" * 40)
BASH = tool("Bash", lambda given: "ok")
HOUR = {"type": "ephemeral", "ttl": "1h"}
MINUTES = {"type": "ephemeral"}


def sections(volatile=None):
    made = SystemPromptSections()
    made.dynamic("environment", lambda: "Linux, " + "a long description of the machine. " * 200)
    made.static("rules", lambda: RULES)
    if volatile:
        made.DANGEROUS_recomputed_every_request("clock", volatile, why="the model asks for the time often")
    return made


def markers(body):
    """Every `cache_control` in the order of the cache."""
    blocks = [*body.get("tools", []), *body["system"]]
    blocks += [block for message in body["messages"] for block in message["content"]]
    return [block["cache_control"] for block in blocks if "cache_control" in block]


@pytest.mark.spec("PC-1")
def test_static_sections_stand_before_dynamic_ones_each_part_in_one_block(desk):
    body = desk.send_once(system=sections())
    assert [block["text"][:5] for block in body["system"]] == ["Read ", "Linux"]
    assert marked(body)[:2] == ["system 0", "system 1"]


@pytest.mark.spec("PC-2")
def test_a_section_is_computed_once_until_a_compaction_and_a_volatile_one_each_time(desk):
    computed = {"kept": 0, "volatile": 0}

    def count(name):
        computed[name] += 1
        return f"{name} text"

    made = SystemPromptSections()
    made.static("kept", lambda: count("kept"))
    made.DANGEROUS_recomputed_every_request("now", lambda: count("volatile"), why="the model needs the time")
    with desk.open(system=made) as session:
        desk.talk(session, 3, size=20)
        assert computed["kept"] == 1
        assert computed["volatile"] >= 3
        desk.twin.script(SUMMARY)
        session.compact()
        desk.talk(session, 1)
    assert computed["kept"] == 2


@pytest.mark.moves_cache_prefix(reason="a section of the system prompt changes on purpose")
@pytest.mark.spec("PC-2", "CB-3")
def test_a_volatile_section_that_changes_breaks_the_cache_and_is_named(desk):
    hour = ["ten"]
    # Haiku models are left out of break detection (CB-9).
    prompt = sections(lambda: f"It is {hour[0]} o'clock.")
    with desk.open(system=prompt, model="claude-opus-5") as session:
        desk.talk(session, 2, size=200)
        assert desk.heard("CacheBroken") == []
        hour[0] = "eleven"
        desk.talk(session, 1)
    [broken] = desk.heard("CacheBroken")
    assert broken.parts == ("system",)
    assert ["It is eleven o'clock." in json.dumps(body["system"]) for body in desk.bodies] == [
        False,
        False,
        True,
    ]


@pytest.mark.spec("PC-4")
def test_a_callers_own_prompt_is_one_block(desk):
    assert desk.send_once(system=RULES)["system"] == [text(RULES, cache_control=MINUTES)]


@pytest.mark.spec("PC-5", "PC-6")
def test_one_marker_ends_the_tools_one_the_system_prompt_and_one_the_messages(desk):
    with desk.open(tools=[READ, BASH]) as session:
        desk.use_tool(session, 2)
    for body in desk.bodies:
        last = len(body["messages"]) - 1
        assert marked(body) == [
            "tools 1",
            "system 0",
            f"messages {last}/{len(body['messages'][-1]['content']) - 1}",
        ]


@pytest.mark.spec("PC-6")
def test_tools_are_sent_in_one_order_whatever_order_they_were_given_in(desk):
    first = desk.send_once(tools=[READ, BASH])
    second = desk.send_once(tools=[BASH, READ])
    assert json.dumps(first["tools"]) == json.dumps(second["tools"])
    assert [each["name"] for each in first["tools"]] == ["Bash", "Read"]


@pytest.mark.spec("PC-5")
def test_no_marker_is_ever_put_on_thinking_or_an_empty_text(desk):
    with desk.open(thinking={"type": "enabled", "budget_tokens": 2_000}, tools=[READ]) as session:
        desk.twin.script(
            {"content": [{"type": "thinking", "thinking": "Hm. " * 50}, call("toolu_1", file_path="a")]}
        )
        desk.twin.script("Well.")
        session.send("Read a.")
    kinds = {
        block["type"]
        for body in desk.bodies
        for message in body["messages"]
        for block in message["content"]
        if "cache_control" in block
    }
    assert kinds <= {"text", "tool_result"}
    assert [entry["status"] for entry in desk.twin.ledger] == [200, 200]


@pytest.mark.spec("PC-7")
def test_a_turn_of_many_blocks_still_finds_the_entry_of_the_turn_before(desk):
    with desk.open() as session:
        desk.talk(session, 1)
        desk.twin.script("Well.")
        session.send([text(f"Line {n}. " + "Look closely. " * 20) for n in range(50)])
    before, after = (entry["usage"] for entry in desk.twin.ledger)
    assert len(marked(desk.bodies[-1])) > 2
    assert after["cache_read_input_tokens"] == before["cache_creation_input_tokens"]


@pytest.mark.spec("PC-8")
def test_a_prediction_that_does_not_come_true_is_told(desk):
    with desk.open() as session:
        desk.talk(session, 2)
        assert desk.heard("PredictionMissed") == []
        desk.twin.faults("lost_cache")
        desk.talk(session, 1)
    [event] = desk.heard("PredictionMissed")
    assert event.predicted_read > 4_000
    assert event.reported_read == 0


@pytest.mark.spec("PC-9")
@pytest.mark.parametrize(
    ("eligible", "source", "marker"),
    [
        (False, "main", MINUTES),
        (True, "main", HOUR),
        (True, "agent:explore", HOUR),
        (True, "titles", MINUTES),
    ],
)
def test_an_hour_is_asked_for_by_eligible_accounts_and_listed_sources(desk, eligible, source, marker):
    body = desk.send_once(cache={"ttl": {"eligible": eligible}}, source=source)
    assert markers(body) == [marker, marker]


KEY_FIELDS = ("model", "thinking", "output_config", "tools", "system", "context_management")


def key_of(body):
    """What shapes the cache key of a request beside its messages, and how long its entries live."""
    ttls = {marker.get("ttl", "5m") for marker in markers(body)}
    return {name: body[name] for name in KEY_FIELDS if name in body} | {"ttls": ttls}


@pytest.mark.spec("PC-10")
def test_what_changes_in_the_configuration_during_a_session_waits_for_the_next_one(desk, monkeypatch):
    before = {"EVERTURN_CACHE_TTL_ELIGIBLE": "true", "EVERTURN_EFFORT": "high"}
    after = {
        "EVERTURN_CACHE_TTL_ELIGIBLE": "false",
        "EVERTURN_CACHE_TTL_SOURCES": "nobody",
        "EVERTURN_EFFORT": "low",
        "EVERTURN_THINKING_TYPE": "adaptive",
    }
    for name, value in before.items():
        monkeypatch.setenv(name, value)
    with desk.open(model="claude-opus-5") as session:
        desk.talk(session, 2)
        for name, value in after.items():
            monkeypatch.setenv(name, value)
        desk.talk(session, 2)
    first, *others = map(key_of, desk.bodies)
    assert (first["ttls"], first["output_config"]) == ({"1h"}, {"effort": "high"})
    assert others == [first] * 3
    assert desk.heard("CacheBroken") == []
    desk.path.unlink()
    fresh = key_of(desk.send_once(model="claude-opus-5"))
    assert (fresh["ttls"], fresh["output_config"]) == ({"5m"}, {"effort": "low"})


@pytest.mark.spec("PC-10", "PC-18")
def test_an_hour_that_a_callers_first_request_asked_for_stays_when_a_later_one_asks_for_less(twin, tmp_path):
    """An account that falls into overage stops asking for an hour in the middle of a conversation."""
    held = everturn.middleware(folder=tmp_path, clock=twin.twin.clock.now)
    client = twin.client(middleware=[held])
    written, messages = [], []
    for turn, marker in enumerate((HOUR, HOUR, MINUTES, MINUTES)):
        twin.script(f"Answer {turn}.")
        messages.append({"role": "user", "content": f"Question {turn}. " + "Look closely. " * 60})
        system = [text(RULES, cache_control=marker)]
        reply = client.messages.create(model=HAIKU, max_tokens=500, system=system, messages=messages)
        messages.append({"role": "assistant", "content": reply.content})
        creation = reply.usage.cache_creation
        written.append((creation.ephemeral_1h_input_tokens > 0, creation.ephemeral_5m_input_tokens))
    held.close()
    assert written == [(True, 0)] * 4
    reads = [entry["usage"]["cache_read_input_tokens"] for entry in twin.ledger]
    assert reads[0] == 0 < reads[1] < reads[2] < reads[3]


@pytest.mark.spec("PC-18")
@pytest.mark.parametrize(
    ("provider", "variables", "ttl", "marker"),
    [
        ("bedrock", {}, {"eligible": True}, MINUTES),
        ("bedrock", {"ENABLE_PROMPT_CACHING_1H_BEDROCK": "1"}, {}, HOUR),
        ("anthropic", {"ENABLE_PROMPT_CACHING_1H_BEDROCK": "1"}, {}, MINUTES),
        ("anthropic", {}, {"eligible": True}, HOUR),
        ("anthropic", {}, {"eligible": True, "in_overage": True}, MINUTES),
    ],
)
def test_the_lifetime_follows_the_provider_and_the_account(
    desk, monkeypatch, provider, variables, ttl, marker
):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    body = desk.send_once(provider={"name": provider}, cache={"ttl": ttl})
    assert markers(body) == [marker, marker]
    assert desk.twin.ledger[-1]["status"] == 200


@pytest.mark.spec("PC-9", "PC-11", "PC-13")
def test_a_fork_asks_for_five_minutes_and_longer_markers_come_first(desk):
    with desk.open(cache={"ttl": {"eligible": True}}) as session:
        desk.talk(session, 2)
        desk.twin.script(SUMMARY)
        session.compact()
    lifetimes = [marker.get("ttl", "5m") for marker in markers(desk.bodies[-1])]
    assert lifetimes == sorted(lifetimes)
    assert [entry["status"] for entry in desk.twin.ledger] == [200] * 3


@pytest.mark.spec("PC-12", "PC-13", "CP-6")
def test_the_summary_is_asked_for_in_a_fork_that_reads_the_parents_prefix(desk):
    with desk.open(tools=[READ]) as session:
        desk.use_tool(session, 2)
        desk.talk(session, 2, size=200)
        parent = desk.bodies[-1]
        desk.twin.script(SUMMARY)
        session.compact()
    fork = desk.bodies[-1]
    assert {name: fork[name] for name in ("model", "tools", "system", "max_tokens")} == {
        name: parent[name] for name in ("model", "tools", "system", "max_tokens")
    }
    sent = len(parent["messages"])
    assert [each["role"] for each in fork["messages"][sent:]] == ["assistant", "user"]
    usage = desk.twin.ledger[-1]["usage"]
    before = desk.twin.ledger[-2]["usage"]
    known = before["cache_read_input_tokens"] + before["cache_creation_input_tokens"]
    assert usage["cache_read_input_tokens"] >= known


@pytest.mark.spec("PC-13")
def test_a_fork_that_calls_a_tool_is_asked_once_more_and_the_tool_is_not_run(desk):
    ran = []
    with desk.open(tools=[tool("Read", lambda call: ran.append(call) or "done")]) as session:
        desk.talk(session, 3, size=200)
        before = len(desk.bodies)
        desk.twin.script({"content": [call("toolu_fork", "Read", file_path="secret.py")]})
        desk.twin.script(SUMMARY)
        session.compact()
        desk.twin.script("Well.")
        session.send("Go on.")
    assert "waiting for the token" in words(desk.bodies[-1])
    assert ran == []
    assert len(desk.bodies) == before + 3
    assert "toolu_fork" not in json.dumps(desk.bodies[before + 1])


@pytest.mark.spec("PC-14")
def test_a_fork_that_fails_leaves_the_conversation_and_its_cache_as_they_were(desk):
    with desk.open(ways=("fork",)) as session:
        desk.talk(session, 3)
        desk.twin.faults({"kind": "server_error", "times": 5})
        session.compact()
        desk.twin.twin.faults.clear()
        desk.talk(session, 1)
    assert desk.heard("CacheBroken") == []
    before, after = desk.twin.ledger[2]["usage"], desk.twin.ledger[-1]["usage"]
    assert after["cache_read_input_tokens"] >= before["cache_read_input_tokens"]


@pytest.mark.spec("PC-15", "MC-8", "MC-9", "MC-10")
def test_results_carry_a_reference_where_the_provider_can_delete_them_from_its_cache(extended_desk):
    desk = extended_desk
    with desk.open(tools=[READ], capabilities=EXTENDED_TWIN) as session:
        desk.use_tool(session, 14)
    edits = [
        [
            block
            for message in body["messages"]
            for block in message["content"]
            if block["type"] == "cache_edits"
        ]
        for body in desk.bodies
    ]
    first = next(at for at, found in enumerate(edits) if found)
    names = [f"toolu_Read_{at}" for at in range(7)]
    assert [each["cache_reference"] for each in edits[first][0]["edits"]] == names
    # Pinned: every later request has it again, and no reference is deleted twice.
    assert all(found[:1] == edits[first] for found in edits[first:])
    everything = [each["cache_reference"] for block in edits[-1] for each in block["edits"]]
    assert len(everything) == len(set(everything))
    results = [
        block
        for message in desk.bodies[-1]["messages"]
        for block in message["content"]
        if block["type"] == "tool_result"
    ]
    assert {
        block["cache_reference"] == block["tool_use_id"] for block in results if "cache_reference" in block
    } == {True}
    assert [entry["status"] for entry in desk.twin.ledger] == [200] * 28
