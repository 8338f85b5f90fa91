"""Whole compactions of one session in which everything happens: every effect, plan, record and receipt.

Each scene is compared with what was recorded. Set EVERTURN_WRITE_GOLDEN=1 to write the files again; then read
every line of the difference.
"""

from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import builders as b
import msgspec
import pytest
from decide.summary.test_whole_sections import crowded, long, shown
from decide.summary.test_whole_summaries import attached, called, check, everything
from engine.alone import DOWN, Alone, summary
from engine.held import head
from presets import preset, with_threshold

from everturn.decide.compact.settings import CompactSettings
from everturn.decide.compact.summary_fitting import WINDOW_FULL
from everturn.decide.compact.values import CompactionRequest, CompactionSkipped
from everturn.decide.effects import AskModel, Effect, ModelAnswer, ModelFailure
from everturn.decide.notes.document import Notes, NotesState
from everturn.history.blocks import Block, block_from_fields, text_block, text_of
from everturn.history.messages import Message
from everturn.history.records import Record, Usage
from everturn.view.forks import CapturedRequest
from everturn.wire.anthropic import Request
from everturn.wire.overflow import Overflow
from everturn.wire.queued_messages import QueuedMessage

GOLDEN = Path(__file__).with_name("golden")
NOTED = Notes("# Current state\n" + "The reader of rows counts once. " * 12, NotesState("s1"))


def working() -> list[Record]:
    """`everything`, with skills, agents, listings, repeated reads and a last question."""
    listing = {"addedNames": ["Grep2"], "addedLines": ["Grep2: finds"], "removedNames": []}
    return [
        *everything(),
        *called(18, "Bash", "12 ms", command="python bench.py"),
        *called(19, "Skill", "Launching skill: tidy", skill="tidy"),
        b.user([b.say("Base directory for this skill: /s/tidy\n\n# Tidy\n" + "Tidy up. " * 900)], uuid="sk"),
        *called(20, "Read", "x = 1\n" * 60, file_path="/p/src/rows.py"),
        *called(21, "Read", "y = 2\n" * 60, file_path="/p/src/header.py"),
        *called(22, "Read", "memory", file_path="/p/CLAUDE.md"),
        *called(23, "Read", "the plan", file_path="/home/me/.claude/plans/plan.md"),
        attached("deferred_tools_delta", **listing),
        attached("todo_reminder", content=[], itemCount=0),
        b.user("Run it again, and never skip a test.", uuid="ask"),
    ]


def lines(value: object, path: str = "") -> Iterator[str]:
    """A value as lines: where it is, and what it is. What is empty is left out."""
    match value:
        case Block():
            yield f"{path} = {shown(value.raw.decode())}"
        case Record() if not value.uuid.startswith("new-"):
            yield f"{path} = {value.uuid}"
        case CapturedRequest():
            yield from lines(value.messages, f"{path}.messages")
        case Request():
            yield from lines((value.model, value.settings, value.messages), path)
            yield from lines([len(value.system), len(value.tools)], f"{path}.preamble")
        case [Message(), *_]:
            told = [f"{each.role}: {[block.raw.decode() for block in each.blocks]}" for each in value]
            yield f"{path} = {len(told)} messages, {shown(chr(10).join(told[:-1]))}"
            yield f"{path}[-1] = {shown(told[-1])}"
        case [Record() as first, *_] if not first.uuid.startswith("new-"):
            yield f"{path} = {shown(' '.join(each.uuid for each in value))}"
        case msgspec.Struct():
            for name in value.__struct_fields__:
                if name != "raw":
                    yield from lines(getattr(value, name), f"{path}.{name}")
        case dict():
            for name, each in value.items():
                yield from lines(each, f"{path}.{name}")
        case list() | tuple():
            for at, each in enumerate(value):
                yield from lines(each, f"{path}[{at}]")
        case str() if value:
            yield f"{path} = {shown(value)}"
        case float() | Decimal() if value:
            yield f"{path} = {float(value):.6g}"
        case _ if value:
            yield f"{path} = {value}"
        case _:
            pass


def told(name: str, *values: object) -> None:
    text = "\n".join(line for value in values for line in lines(value, type(value).__name__))
    path = GOLDEN / f"{name}.txt"
    check(str(path), text + "\n")


def alone(*strategies: str, records: list[Record] | None = None, **fields: Any) -> Alone:
    compact = CompactSettings(strategies=strategies, **fields.pop("compact", {}))  # type: ignore[arg-type]
    made = Alone(
        working() if records is None else records,
        model=fields.pop("model", "claude-opus-4-6"),
        compact=compact,
        preamble=head("Be brief. " * 300),
        **{"answers": [summary()], **fields},
    )
    made.conversation.notes = NOTED
    return made


def compact(scene: Alone, **asked: Any) -> tuple[object, list[Effect]]:
    wanted = CompactionRequest(**{"trigger": "manual", **asked})
    made = scene.run(scene.conversation.compact(wanted, scene.now, scene.new_id))
    return made, scene.effects


TOO_LONG = ModelFailure("too_long", "prompt is too long", overflow=Overflow("anthropic", 4_000, 3_000))


def short() -> ModelAnswer:
    return ModelAnswer((text_block("Too short."),), "end_turn", Usage(10, 1, 2, 5))


@pytest.mark.parametrize("strategy", ["notes", "fork", "direct", "extractive"])
def test_each_strategy_asks_plans_and_records_as_before(strategy):
    told(strategy, *compact(alone(strategy)))


def test_the_provider_s_own_compaction_is_recorded_as_before():
    provided = block_from_fields({"type": "compaction", "content": "All is well.", "signature": "s"})
    answers = [ModelAnswer((provided,), "end_turn", Usage(10, 0, 0, 5))]
    told("provider", *compact(alone("provider", answers=answers)))


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("up_to", {"form": "up_to", "at": "u3", "instructions": "Keep the rows."}),
        ("auto", {"trigger": "auto"}),
        ("reactive", {"trigger": "auto", "is_reactive": True}),
        ("keeps_nothing", {"trigger": "auto", "is_reactive": True, "keeps_nothing": True}),
    ],
)
def test_each_form_and_trigger_divides_and_records_as_before(name, asked):
    told(name, *compact(alone("direct"), **asked))


def test_a_compaction_from_a_message_on_keeps_what_was_before_and_records_as_before():
    answered = [*working(), b.assistant("Done: 12 ms.", id="n9", uuid="done")]
    told("from", *compact(alone("direct", records=answered), form="from", at="u3"))


@pytest.mark.spec("CP-37")
def test_a_compaction_from_a_message_on_is_refused_while_the_newest_message_has_no_answer():
    made, effects = compact(alone("direct"), form="from", at="u3")
    assert made == CompactionSkipped(
        "A compaction from a message on would summarize the newest message, which has no answer yet. Send it "
        "first, or compact everything, or up to a message: both keep it."
    )
    assert [type(each).__name__ for each in effects] == ["RunHooks"]


def test_what_fails_is_told_in_its_order_and_the_next_strategy_is_tried():
    answers = [DOWN, TOO_LONG, short(), short(), DOWN]
    told("failures", *compact(alone("fork", "direct", "extractive", answers=answers, compact={"calls": 9})))


def test_a_summary_that_reached_the_end_of_the_window_is_asked_for_again_with_less():
    full = ModelAnswer((text_block("1. The user"),), WINDOW_FULL, Usage(900, 10, 20, 30))
    refused = ModelFailure("too_long", "too long", Overflow("anthropic", 9_500, 9_000))
    scene = alone("direct", "extractive", answers=[refused, full, summary()], records=crowded())
    made, effects = compact(scene)
    calls = [(len(each.request.messages), each.request) for each in effects if isinstance(each, AskModel)]
    told("window_full", calls, made.attempts)


def test_a_fork_that_reached_the_end_of_the_window_names_the_window_of_its_own_model():
    full = ModelAnswer((text_block("1. The user"),), WINDOW_FULL, Usage(900, 10, 20, 30))
    settings = {"summary_model": "claude-haiku-4-5"}
    made, _ = compact(alone("fork", "extractive", answers=[full], compact=settings))
    # Of claude-opus-4-6, and not that of the model for summaries.
    assert made.attempts[0].problem == "the summary reached the end of the window (1,000,000 tokens)"


def test_a_model_is_told_what_was_typed_meanwhile_in_the_order_in_which_it_was():
    scene = alone("fork")
    typed = [("Third.", "2026-11-15T13:00:02Z"), ("First.", "2026-11-15T13:00:00Z"), ("Old.", "2020-01-01")]
    scene.conversation.take_queued([QueuedMessage(text, "waiting", at) for text, at in typed])
    asked = next(each for each in compact(scene)[1] if isinstance(each, AskModel))
    prompt = text_of(asked.request.messages[-1].blocks[-1])
    assert 0 < prompt.find("First.") < prompt.find("Third.")


def test_when_all_fails_nothing_is_recorded_and_every_reason_is_told():
    scene = alone("fork", "direct", "provider", answers=[DOWN])
    made, effects = compact(scene)
    told("nothing", made, [each for each in effects if not isinstance(each, AskModel)])


def test_a_summary_model_that_is_refused_twice_is_replaced_by_the_conversation_s_own():
    scene = alone(
        "direct",
        answers=[short(), short(), summary()],
        compact={"summary_model": "claude-haiku-4-5", "calls": 9},
    )
    told("own_model", *compact(scene))


@pytest.mark.parametrize("tokens", [400, 1_500])
def test_a_summary_of_a_given_length_is_asked_for_and_written(tokens):
    asked = alone("direct", "extractive", answers=[DOWN], compact={"summary_tokens": tokens})
    made, effects = compact(asked)
    told(f"length_{tokens}", made, effects[-1])


def test_by_price_the_last_round_and_what_is_dear_to_fetch_is_kept():
    scene = alone("extractive", under=preset("economic"), records=[*working()[:-1], *crowded()[-60:]])
    told("by_price", compact(scene, trigger="auto", economics="a test")[0])


def test_a_crowded_session_is_compacted_as_before():
    scene = alone("extractive", records=[*crowded(), b.user(long(3_000, "Look"), uuid="end")])
    told("crowded", compact(scene)[0])


def test_a_turn_over_the_threshold_compacts_and_the_next_compaction_follows_it():
    options = with_threshold("claude-code", 3.0)
    scene = alone("extractive", under=options, model="claude-sonnet-4-5", records=crowded())
    first = scene.turn()
    scene.conversation.record_reply([b.assistant("Yes.", id="x1", uuid="x1")], Usage(900, 0, 0, 9), scene.now)
    scene.conversation.add(b.user(long(60_000, "More"), uuid="more"))
    second = scene.turn(timedelta(minutes=7))
    told("turns", first, second, scene.events)


def test_a_model_that_is_too_small_for_the_conversation_is_not_asked():
    words = b.user("word " * 260_000, uuid="huge")
    records = [b.user("Read this.", uuid="u0"), b.assistant("Yes.", id="m0", uuid="a0"), words]
    scene = alone("fork", "direct", model="claude-haiku-4-5", records=[*records, *called(1, "Bash", "ok")])
    told("too_small", compact(scene)[0])
