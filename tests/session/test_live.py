"""The steps of a call, for whoever sends by other means than ours."""

from pathlib import Path

import pytest
from engine.held import Held, words
from engine.working import Working

from everturn.decide.compact.values import Compaction
from everturn.session.upstream import Answered, UpstreamError
from everturn.twin.script import line
from everturn.twin.upstream import through_twin


def test_preparing_and_receiving_come_to_what_a_call_comes_to(tmp_path: Path):
    whole, parted = Held(tmp_path / "whole"), Held(tmp_path / "parted")
    for held in (whole, parted):
        held.twin.speaker.add([line([{"type": "text", "text": "Forty-two."}])])
        held.live.say("How many?")
    prepared = parted.live.prepare()
    assert [record.kind for record in parted.live.conversation.log.records] == ["user"]
    exchange = parted.live.received(prepared, through_twin(parted.twin)(prepared.body, prepared.betas))
    assert exchange.turn == prepared.turn
    assert exchange.response.blocks == whole.live.call().response.blocks
    assert parted.live.conversation.log.records == whole.live.conversation.log.records


def test_prepared_again_after_an_error_it_is_the_same_request(tmp_path: Path):
    held = Held(tmp_path)
    held.ask("A question.", words(200, "An answer."))
    held.live.say("Another one.")
    assert held.live.prepare().body == held.live.prepare().body


@pytest.mark.spec("CP-26")
def test_room_is_made_for_whoever_was_told_that_it_is_too_long(tmp_path: Path):
    working = Working(tmp_path, ways=("extract",))
    list(working.work(3))
    live = working.live
    live.say("And now?")
    refused = live.prepare()
    assert live.made_room()
    shorter = live.prepare()
    assert isinstance(refused.turn.compacted, Compaction) is False
    assert len(shorter.body) < len(refused.body)
    assert live.received(shorter, working.send(shorter.body, shorter.betas)).response.blocks


def test_where_nothing_makes_room_that_is_said(tmp_path: Path):
    held = Held(tmp_path)
    held.live.say("Never compacted.")
    assert not held.live.made_room()

    def refuses(body: bytes, betas: object) -> Answered:
        raise UpstreamError(400, "invalid_request_error", "prompt is too long: 9 tokens > 8 maximum")

    held.live._send = refuses
    with pytest.raises(UpstreamError, match="too long"):
        held.live.call()
