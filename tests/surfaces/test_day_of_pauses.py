"""A simulated day of a person with pauses, in virtual time against the twin: every cent is explained."""

import json
import random
from datetime import date
from decimal import Decimal

import msgspec
import pytest
from surfaces.desk import HAIKU, Desk
from surfaces.test_economy import SAYS

from everturn.dashboard.layout import counted
from everturn.decide.events import CacheHeld, CompactionDone
from everturn.history.records import Usage
from everturn.measure.money import format_dollars
from everturn.session.bill import price_usage
from everturn.session.hold_timers import VirtualTimer
from everturn.twin.testing import TwinForTests

MINUTE, OPUS, TODAY = 60.0, "claude-opus-4-5", date(2026, 11, 15)
# Minutes of silence before each message, as people make them: a thought, a coffee, lunch, a meeting, the
# evening.
PAUSES = (0.5, 2, 12, 1, 48, 3, 0.5, 75, 7, 25, 1, 2, 190, 4, 9, 55, 1, 600, 2)
DAY = {
    "model": OPUS,
    "policy": "economic",
    "economy": {"holds": True, "caution": "frugal"},
    "compact": {"strategies": ("direct",), "summary_model": HAIKU},
}


@pytest.fixture
def answering_desk(tmp_path, monkeypatch):
    """A provider that answers by itself, summaries included."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    twin = TwinForTests()
    yield Desk(tmp_path, twin)
    twin.close()


def explained(desk):
    """Every cent that the session can explain: when, what for, how much; the replies by the usage that the
    transcript has, holds and summaries by the events that say why."""
    found = []
    for line in desk.lines():
        if line["type"] == "assistant":
            usage = msgspec.convert(line["message"]["usage"], Usage)
            found.append((line["timestamp"][:19], "call", price_usage(usage, OPUS, TODAY).dollars))
    for event in desk.events:
        at = event.moment.at.isoformat()[:19]
        if isinstance(event, CacheHeld):
            assert event.why.startswith(
                f"held for ${event.dollars:.3f}, expected saving ${event.expected:.3f}"
            )
            found.append((at, "hold", price_usage(event.usage, OPUS, TODAY).dollars))
        if isinstance(event, CompactionDone):
            assert event.why.startswith("cold reset: ")
            found.append((at, "summary", price_usage(event.usage, HAIKU, TODAY).dollars))
    return sorted(found)


def charged(desk):
    """Every cent in the ledger of the provider."""
    kinds = {(OPUS, False): "call", (OPUS, True): "hold", (HAIKU, False): "summary"}
    return sorted(
        (
            row["time"][:19],
            kinds[row["model"], row["usage"]["output_tokens"] == 0],
            Decimal(str(row["dollars"])),
        )
        for row in desk.twin.ledger
    )


@pytest.mark.spec("EC-1", "EC-2")
@pytest.mark.moves_cache_prefix(reason="a reset replaces the context on purpose")
def test_every_cent_of_a_day_with_pauses_is_a_call_or_a_decision_with_its_numbers(answering_desk):
    desk = answering_desk
    clock, words = desk.twin.twin.clock, random.Random(7)
    timer = VirtualTimer(clock.now, clock.set)
    with desk.open(**DAY, hold_timer=timer) as session:
        for number, minutes in enumerate(PAUSES):
            timer.advance(minutes * MINUTE)
            session.send(f"Log {number}: " + SAYS * words.randint(100, 1_400))
        timer.advance(86_400)
        bill, saved = session.bill, session.context().saved
    assert charged(desk) == explained(desk)
    kinds = [kind for _, kind, _ in charged(desk)]
    assert {kind: kinds.count(kind) for kind in sorted(set(kinds))} == {"call": 19, "hold": 10, "summary": 3}
    dollars = {purpose: part.dollars for purpose, part in bill.parts.items()}
    assert bill.dollars == sum(dollars for _, _, dollars in charged(desk))
    assert float(dollars["hold"]) == pytest.approx(saved.held)
    # The input side: what the decisions of EC-8 are measured by.
    output = sum(part.output for name, part in bill.parts.items() if name == "conversation") * 25 / 1_000_000
    assert saved.spent == pytest.approx(float(bill.dollars) - output)
    assert saved.spent < saved.unmanaged


@pytest.mark.spec("EC-1")
@pytest.mark.moves_cache_prefix(reason="a reset replaces the context on purpose")
def test_an_audit_and_the_calls_beside_the_conversation_come_to_what_was_charged(answering_desk):
    desk = answering_desk
    clock = desk.twin.twin.clock
    timer = VirtualTimer(clock.now, clock.set)
    with desk.open(**DAY, hold_timer=timer) as session:
        for number, minutes in enumerate((*PAUSES[:8], 24 * 60)):
            timer.advance(minutes * MINUTE)
            session.send(f"Log {number}: " + SAYS * 900)
        timer.advance(86_400)
        parts = session.bill.parts
    audited = json.loads(desk.everturn("audit", desk.path, "--json").stdout, parse_float=Decimal)
    beside = {purpose: (each["calls"], each["dollars"]) for purpose, each in audited["asides"].items()}
    assert beside == {name: (parts[name].calls, parts[name].dollars) for name in ("compact", "hold")}
    together = audited["total"]["dollars"] + sum(dollars for _, dollars in beside.values())
    assert together == sum(dollars for _, _, dollars in charged(desk))
    assert audited["total"]["calls"] + sum(calls for calls, _ in beside.values()) == len(desk.twin.ledger)
    printed = desk.everturn("audit", desk.path, "--no-color").stdout
    summaries, holds = (
        counted(*each) for each in ((beside["compact"][0], "summary call"), (beside["hold"][0], "hold"))
    )
    dollars = [format_dollars(beside[name][1]) for name in ("compact", "hold")]
    assert (
        "Beside these calls, and not included above: "
        f"{summaries} for {dollars[0]}, {holds} for {dollars[1]}.\n"
    ) in printed
    # Of a part of the days nobody knows which of them belong to it.
    some = desk.everturn("audit", desk.path, "--json", "--until", "2026-11-15").stdout
    assert (json.loads(some)["total"]["calls"], json.loads(some)["asides"]) == (8, {})
