"""A whole turn, in its order, under every driver, at any length (OV)."""

import json
import sys
from pathlib import Path

import anthropic
import pytest
from scripted_twin import scripted_options
from surfaces.desk import HAIKU, RULES, SUMMARY, Desk, tool, words

import everturn
from everturn import AsyncSession
from everturn.decide.options import Options
from everturn.measure.thresholds import ThresholdSettings
from everturn.twin.testing import TwinForTests

READ = tool("Read", lambda given: "line of code\n" * 400)
SOURCE = str(Path(everturn.__file__).parent)
LOW = Options(thresholds=ThresholdSettings(auto_percent=25))


@pytest.mark.spec("OV-1", "MC-1")
def test_a_turn_clears_first_then_compacts_then_sends(desk):
    with desk.open(tools=[READ], options=LOW, ways=("extract",)) as session:
        desk.use_tool(session, 8)
        desk.talk(session, 2, size=1_000)
        asked = len(desk.bodies)
        desk.twin.advance(3_601)
        desk.twin.script("Well.")
        session.send("And now? " + "Look closely. " * 4_300)
    assert len(desk.bodies) == asked + 1
    kinds = [line.get("subtype", line["type"]) for line in desk.lines()]
    kinds = [kind for kind in kinds[-8:] if kind != "attachment"]
    assert kinds[-5:] == ["user", "microcompact_boundary", "compact_boundary", "user", "assistant"]


def taught(folder: Path) -> Desk:
    """A desk whose model says the same as that of any other."""
    desk = Desk(folder, TwinForTests(options=scripted_options()))
    folder.mkdir()
    for turn in range(4):
        desk.twin.script(f"Answer {turn}: " + "as far as the results show. " * 60)
    desk.twin.script(SUMMARY, "Well.")
    return desk


@pytest.mark.spec("OV-2")
async def test_a_session_with_awaits_makes_the_same_requests(tmp_path):
    plain, awaited = taught(tmp_path / "plain"), taught(tmp_path / "awaited")
    with plain.open() as session:
        for turn in range(4):
            session.send(f"Question {turn}.")
        session.compact()
        session.send("And now?")
    client = awaited.twin.client(middleware=[_recorder(awaited)])
    options = {"client": client, "model": HAIKU, "system": RULES, "clock": awaited.twin.twin.clock.now}
    async with await AsyncSession.open(awaited.path, fsync="never", **options) as session:
        for turn in range(4):
            await session.send(f"Question {turn}.")
        await session.compact()
        await session.send("And now?")
    first = [json.dumps(body).replace(str(plain.path), "PATH") for body in plain.bodies]
    second = [json.dumps(body).replace(str(awaited.path), "PATH") for body in awaited.bodies]
    assert first == second
    assert len(first) == 6
    for desk in (plain, awaited):
        desk.twin.close()


def _recorder(desk: Desk) -> anthropic.Middleware:
    class Recorder(anthropic.Middleware):
        def handle(self, request, call_next):
            desk.bodies.append(json.loads(json.dumps(request.json)))
            return call_next(request)

    return Recorder()


def calls_of(act) -> int:
    """How many functions of everturn run, without those of the twin and of the checks around every test."""
    count = 0

    def note(frame, event, _):
        nonlocal count
        if event == "call" and _is_ours(frame.f_code.co_filename):
            count += not _is_checking(frame)

    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(None)
    return count


def _is_ours(file: str) -> bool:
    """Writing the request's own bytes may grow with it."""
    return file.startswith(SOURCE) and "/twin/" not in file and not file.endswith("wire/anthropic.py")


def _is_checking(frame) -> bool:
    while frame is not None and not frame.f_code.co_filename.endswith(("cache_net.py", "upstream.py")):
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename.endswith("cache_net.py")


@pytest.mark.spec("OV-3")
def test_a_turn_costs_no_more_after_a_hundred_than_after_twenty(desk):
    def turn():
        desk.twin.script("Yes.")
        session.send("Go on.")

    with desk.open() as session:
        for _ in range(20):
            turn()
        early = calls_of(turn)
        for _ in range(80):
            turn()
        late = calls_of(turn)
    assert early > 100
    assert late <= early * 1.05


@pytest.mark.spec("OV-2", "CP-26")
async def test_the_middleware_recovers_from_a_prompt_that_is_too_long_with_and_without_awaits(twin, tmp_path):
    for name, make in (("plain", twin.client), ("awaited", twin.async_client)):
        held = everturn.middleware(folder=tmp_path / name, clock=twin.twin.clock.now)
        client = make(middleware=[held], api_key=name)
        messages = []
        for turn in range(4):
            messages.append({"role": "user", "content": f"Question {turn}. " + "Look closely. " * 400})
            if turn == 3:
                twin.faults("prompt_too_long")
            reply = client.messages.create(model=HAIKU, max_tokens=500, messages=messages)
            reply = reply if name == "plain" else await reply
            messages.append({"role": "assistant", "content": reply.content})
        held.close()
        statuses = [entry["status"] for entry in twin.twin.ledger(name)]
        assert statuses == [200, 200, 200, 400, 200, 200]


@pytest.mark.spec("OV-1")
def test_what_was_said_is_on_disk_before_the_request_leaves(desk):
    seen = []

    class Looks(anthropic.Middleware):
        def handle(self, request, call_next):
            seen.append(words(json.loads(json.dumps(request.json))) in desk.path.read_text())
            return call_next(request)

    desk.twin.script("Yes.")
    with desk.open(client=desk.twin.client(middleware=[Looks()])) as session:
        session.send("Is this on disk?")
    assert seen == [True]
