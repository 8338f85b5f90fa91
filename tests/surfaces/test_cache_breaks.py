"""A cache that breaks is noticed and explained (CB)."""

import json

import pytest
from surfaces.desk import HAIKU, RULES, SUMMARY, Desk, tool

from everturn.view.system_prompt import SystemPromptSections

MOVES = pytest.mark.moves_cache_prefix(reason="the system prompt or the tools are changed on purpose")
# Breaks are not reported for Haiku (CB-9).
SONNET = "claude-sonnet-4-6"
READ, GREP = tool("Read", lambda given: "contents"), tool("Grep", lambda given: "hits")


@pytest.fixture
def desk(tmp_path, twin):
    return Desk(tmp_path, twin, model=SONNET)


def reopened(desk, before, after, turns=2):
    """A session that is closed and opened again with other options."""
    with desk.open(**before) as session:
        desk.talk(session, turns)
    with desk.open(**after) as session:
        desk.talk(session, 1)
    return desk.heard("CacheBroken")


@MOVES
@pytest.mark.spec("CB-1", "CB-2", "CB-3", "CB-7")
@pytest.mark.parametrize(
    ("after", "part", "why"),
    [
        ({"system": RULES + "Be brief."}, "system", "system prompt changed (+9 chars)"),
        ({"tools": [GREP, READ]}, "tools", "tools changed (+1/-0)"),
        ({"tools": []}, "tools", "tools changed (+0/-1)"),
    ],
)
def test_what_changed_since_the_last_call_is_named_also_over_a_restart(desk, after, part, why):
    [event] = reopened(desk, {"tools": [READ]}, {"tools": [READ], **after})
    assert (event.cause, part in event.parts) == ("key_changed", True)
    assert why in event.why
    read = [entry["usage"]["cache_read_input_tokens"] for entry in desk.twin.ledger]
    assert event.tokens_lost == read[1] - read[2]


@pytest.mark.spec("CB-2")
def test_a_session_that_only_grows_breaks_nothing(desk):
    assert reopened(desk, {"tools": [READ]}, {"tools": [READ]}) == []


@pytest.mark.spec("CB-3")
@pytest.mark.parametrize(("idle", "why"), [(400, "5 min"), (4_000, "1 h")])
def test_an_idle_time_is_named_when_nothing_changed(desk, idle, why):
    with desk.open() as session:
        desk.talk(session, 2)
        desk.twin.advance(idle)
        desk.talk(session, 1)
    [event] = desk.heard("CacheBroken")
    assert (event.cause, event.idle) == ("expiry", idle)
    assert why in event.why


@pytest.mark.spec("CB-3", "CB-8")
def test_a_loss_on_the_servers_side_is_said_to_be_one(desk):
    with desk.open() as session:
        desk.talk(session, 2)
        desk.twin.faults("lost_cache")
        desk.talk(session, 1)
    [event] = desk.heard("CacheBroken")
    assert (event.cause, event.parts) == ("server_side", ())
    assert all("diagnostics" in body for body in desk.bodies)


PICTURE = {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}
CITED = {
    "type": "document",
    "source": {"type": "text", "media_type": "text/plain", "data": "The sky is blue."},
    "citations": {"enabled": True},
}


@pytest.mark.moves_cache_prefix(reason="a picture changes the key of all messages, citations that of more")
@pytest.mark.spec("CB-1", "CB-3")
@pytest.mark.parametrize(
    ("block", "part", "why"),
    [(PICTURE, "pictures", "pictures added"), (CITED, "citations", "citations switched on")],
)
@pytest.mark.parametrize("restarts", [False, True])
def test_a_picture_or_citations_in_a_message_are_named_as_the_cause(desk, block, part, why, restarts):
    with desk.open() as session:
        desk.talk(session, 3, size=800)
        if not restarts:
            desk.twin.script("Blue.")
            session.send([block, {"type": "text", "text": "What is it?"}])
    if restarts:
        with desk.open() as session:
            desk.twin.script("Blue.")
            session.send([block, {"type": "text", "text": "What is it?"}])
    [event] = desk.heard("CacheBroken")
    assert (event.cause, event.parts, event.why) == ("key_changed", (part,), why)


@MOVES
@pytest.mark.spec("CB-4")
def test_the_difference_of_the_two_prompts_is_written_to_a_file(desk):
    rules = iter([*["Be kind."] * 6, *["Be brief."] * 6])
    sections = SystemPromptSections()
    sections.static("rules", lambda: RULES)
    sections.DANGEROUS_recomputed_every_request("mood", lambda: next(rules), why="for this test it changes")
    with desk.open(system=sections) as session:
        while not desk.heard("CacheBroken"):
            desk.talk(session, 1)
    [file] = [path for path in desk.folder.rglob("*") if path.is_file() and "break" in path.name]
    assert {"-Be kind.", "+Be brief."} <= set(file.read_text().splitlines())


@pytest.mark.spec("CB-5")
def test_a_compaction_is_not_taken_for_a_break(desk):
    with desk.open() as session:
        desk.talk(session, 3, size=400)
        desk.twin.script(SUMMARY)
        session.compact()
        desk.talk(session, 2)
    assert desk.heard("CacheBroken") == []


@pytest.mark.spec("CB-5", "MC-5")
def test_after_results_were_cleared_one_comparison_is_skipped(desk):
    many = tool("Read", lambda given: "line of code\n" * 400)
    with desk.open(tools=[many]) as session:
        desk.use_tool(session, 8)
        desk.twin.advance(3_700)
        desk.talk(session, 2)
    assert [event.kind for event in desk.heard("MicroCompacted")] == ["time"]
    assert desk.heard("CacheBroken") == []


@MOVES
@pytest.mark.spec("CB-6")
def test_each_source_is_compared_with_itself(desk):
    with desk.open(source="main") as session:
        desk.talk(session, 2)
    with desk.open(source="agent:explore", system=RULES.upper()) as session:
        desk.talk(session, 1)
    assert desk.heard("CacheBroken") == []


@MOVES
@pytest.mark.spec("CB-8")
def test_the_providers_own_diagnosis_agrees_or_the_difference_is_told(desk):
    [event] = reopened(desk, {}, {"system": RULES + "Be brief."})
    assert event.disagreement == ""
    previous = desk.bodies[-1]["diagnostics"]["previous_message_id"]
    said = [line["message"]["id"] for line in desk.lines() if line["type"] == "assistant"]
    assert previous == said[-2]


@MOVES
@pytest.mark.spec("CB-1", "CB-7")
def test_what_is_kept_for_the_next_start_holds_no_words(desk):
    reopened(desk, {}, {"system": RULES + "Be brief."})
    state = json.loads((desk.folder / "session.jsonl.state.json").read_text())
    assert "main" in state["baselines"]
    assert "Be brief." not in json.dumps(state)
    assert "login test" not in json.dumps(state)


@MOVES
@pytest.mark.spec("CB-9")
@pytest.mark.parametrize(
    ("model", "cache", "breaks"),
    [
        (HAIKU, {}, 0),
        (HAIKU, {"breaks": {"excluded_models": []}}, 1),
        (SONNET, {}, 1),
        (SONNET, {"breaks": {"excluded_models": ["*sonnet*"]}}, 0),
    ],
)
def test_haiku_is_left_out_of_the_comparison_unless_the_setting_says_otherwise(desk, model, cache, breaks):
    given = {"model": model, "cache": cache}
    assert len(reopened(desk, given, {**given, "system": RULES + "Be brief."})) == breaks
