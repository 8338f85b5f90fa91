"""The steps of a call, for whoever sends by other means than ours."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from engine.held import Held, words
from engine.working import Working, low

from everturn.decide.compact.values import Compaction
from everturn.decide.events import Repaired
from everturn.session.upstream import InvalidResponseError, RawResponse, UpstreamError
from everturn.twin.speaker import script_reply
from everturn.twin.upstream import make_twin_send


def test_preparing_and_receiving_come_to_what_a_call_comes_to(tmp_path: Path):
    whole, parted = Held(tmp_path / "whole"), Held(tmp_path / "parted")
    for held in (whole, parted):
        held.twin.speaker.add([script_reply([{"type": "text", "text": "Forty-two."}])])
        held.runner.say("How many?")
    prepared = parted.runner.prepare()
    assert [record.kind for record in parted.runner.conversation.log.records] == ["user"]
    exchange = parted.runner.record_response(
        prepared, make_twin_send(parted.twin)(prepared.body, prepared.betas)
    )
    assert exchange.turn == prepared.turn
    assert exchange.response.blocks == whole.runner.call().response.blocks
    assert parted.runner.conversation.log.records == whole.runner.conversation.log.records


def test_prepared_again_after_an_error_it_is_the_same_request(tmp_path: Path):
    held = Held(tmp_path)
    held.ask("A question.", words(200, "An answer."))
    held.runner.say("Another one.")
    assert held.runner.prepare().body == held.runner.prepare().body


@pytest.mark.spec("CP-26")
def test_room_is_made_for_whoever_was_told_that_it_is_too_long(tmp_path: Path):
    working = Working(tmp_path, ways=("extractive",))
    list(working.work(3))
    live = working.runner
    live.say("And now?")
    refused = live.prepare()
    assert live.compact_after_overflow()
    shorter = live.prepare()
    assert isinstance(refused.turn.compacted, Compaction) is False
    assert len(shorter.body) < len(refused.body)
    assert live.record_response(shorter, working.send(shorter.body, shorter.betas)).response.blocks


def test_where_nothing_makes_room_that_is_said(tmp_path: Path):
    held = Held(tmp_path)
    held.runner.say("Never compacted.")
    assert not held.runner.compact_after_overflow()

    def refuses(body: bytes, betas: object) -> RawResponse:
        raise UpstreamError(400, "invalid_request_error", "prompt is too long: 9 tokens > 8 maximum")

    held.runner._send = refuses
    with pytest.raises(UpstreamError, match="too long"):
        held.runner.call()


# ── what goes wrong ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("CP-7")
def test_who_cancels_a_compaction_on_the_way_to_a_call_cancels_the_call(tmp_path: Path):
    working = Working(tmp_path, ways=("fork", "extractive"), under=low(20, "none"))
    list(working.work(2))
    working.runner.say(words(40_000, "A long story."))
    before, calls = list(working.runner.conversation.log.records), len(working.box.ledger)

    def interrupted(body: bytes, betas: object) -> RawResponse:
        raise KeyboardInterrupt

    world = working.world._world
    send, world._send = world._send, interrupted
    with pytest.raises(KeyboardInterrupt, match="nothing was sent"):
        working.runner.call()
    assert working.runner.conversation.log.records == before
    assert len(working.box.ledger) == calls
    world._send = send
    working.done.append(working.runner.call())
    assert isinstance(working.done[-1].turn.compacted, Compaction)
    assert working.misses == []


@pytest.mark.parametrize(
    "body", [b"", b"<html>502 Bad Gateway</html>", b"[]", b"{}", b'{"type":"error"}', b"[" * 100_000]
)
def test_an_answer_that_is_no_message_says_what_came_and_nothing_is_lost(tmp_path: Path, body: bytes):
    held = Held(tmp_path)
    held.ask("A question.")
    held.runner.say("Another one.")
    before, real = list(held.runner.conversation.log.records), held.runner._send
    held.runner._send = lambda *_: RawResponse(body)
    with pytest.raises(InvalidResponseError) as told:
        held.runner.call()
    assert isinstance(told.value, UpstreamError)
    assert repr(body[:200].decode() or "nothing") in str(told.value)
    assert "What was said is kept; call again." in str(told.value)
    assert held.runner.conversation.log.records == before
    held.runner._send = real
    assert held.call("Yes.").settled.check is not None
    assert held.verdicts[-1] == "as predicted"


def test_a_count_below_zero_is_taken_as_none_and_told(tmp_path: Path):
    held, heard = Held(tmp_path), []
    held.runner._tell = heard.append
    real = held.runner._send

    def lies(body: bytes, betas: Sequence[str]) -> RawResponse:
        answer = msgspec.json.decode(real(body, betas).body)
        answer["usage"] |= {"input_tokens": -7, "output_tokens": -1}
        return RawResponse(msgspec.json.encode(answer))

    held.runner._send = lies
    usage = held.ask("A question.").response.reply.usage
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens) == (0, 0)
    assert usage.cache_creation_input_tokens > 0
    assert held.runner.conversation.log.records[-1].reply.usage == usage
    assert [event.kinds for event in heard if isinstance(event, Repaired)] == [{"negative_usage": 1}]


@pytest.mark.spec("TL-1", "TR-11")
def test_a_repair_is_told_when_it_happens_and_once(tmp_path: Path):
    held, heard = Held(tmp_path), []
    held.runner._tell = heard.append

    def told() -> list[object]:
        return [event.kinds for event in heard if isinstance(event, Repaired)]

    held.work(2)
    assert told() == []
    held.ask("Never mind the files.")
    assert told() == [{"missing_result": 2}]
    held.ask("And now?")
    assert told() == [{"missing_result": 2}]
    held.work(1)
    held.ask("Nor that one.")
    assert told() == [{"missing_result": 2}, {"missing_result": 1}]
