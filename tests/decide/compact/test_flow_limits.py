"""Where a compaction ends without a smaller view: hooks, files and messages at their limits, calls spent."""

from typing import Any

import builders as b
import pytest
from engine.alone import DOWN, Alone, summary

from everturn.decide.compact.settings import CompactSettings
from everturn.decide.compact.values import (
    Attempt,
    Compaction,
    CompactionFailed,
    CompactionRequest,
    CompactionSkipped,
)
from everturn.decide.effects import (
    AskModel,
    Effect,
    FileRead,
    HookOutcome,
    ModelAnswer,
    ModelFailure,
    ReadFiles,
    RunHooks,
)
from everturn.history.blocks import block_from_fields, fields_of, text_block, text_of
from everturn.history.records import Record, Usage
from everturn.view.fragments.truncated import TRUNCATED
from everturn.wire.overflow import Overflow
from everturn.wire.queued_messages import QueuedMessage

AT = "2026-11-15T11:00:00.000Z"
DONE = b.assistant("Done. " * 90, id="m9", uuid="a9")
QUESTION = b.user("Mend the parser. " * 90, uuid="u1")
READ = [
    b.assistant(b.call("c1", "Read", file_path="/p/a.py"), id="m1", uuid="a1"),
    b.result("c1", "x = 1\n" * 900, uuid="r1"),
    b.assistant("It is mended. " * 200, id="m2", uuid="a2"),
]


class Scene(Alone):
    """With hooks and files that say what the test wants."""

    def __init__(self, *strategies: str, hooks: dict[str, HookOutcome] | None = None, **fields: Any) -> None:
        self.hooks, self.file = hooks or {}, fields.pop("file", "as it is now")
        compact = CompactSettings(strategies=strategies, **fields.pop("compact", {}))  # type: ignore[arg-type]
        given = {"records": [QUESTION, *READ], "answers": [summary()], **fields}
        super().__init__(compact=compact, **given)

    def _perform(self, effect: Effect) -> Any:
        match effect:
            case RunHooks(event=event):
                return self.hooks.get(event, HookOutcome())
            case ReadFiles(paths=paths):
                return tuple(FileRead(path, self.file) for path in paths)
            case _:
                return super()._perform(effect)

    def compact(self, **asked: Any) -> Any:
        wanted = CompactionRequest(**{"trigger": "manual", **asked})
        return self.run(self.conversation.compact(wanted, self.now, self.new_id))


def test_a_hook_may_refuse_a_compaction_or_add_to_its_instructions():
    refusing = Scene("fork", hooks={"PreCompact": HookOutcome(blocked="not on Fridays")})
    made = refusing.compact(instructions="Be brief.")
    assert made == CompactionSkipped("a PreCompact hook does not allow it: not on Fridays")
    asked = RunHooks("PreCompact", {"trigger": "manual", "custom_instructions": "Be brief."})
    assert [each for each in refusing.effects if isinstance(each, RunHooks)] == [asked]
    adding = Scene("fork", hooks={"PreCompact": HookOutcome(instructions=("Name files.", " "))})
    made = adding.compact(instructions="Be brief.")
    assert isinstance(made, Compaction)
    assert made.plan is not None
    assert made.plan.asked.instructions == "Be brief.\n\nName files."


def test_a_result_that_is_no_smaller_because_of_a_hook_is_not_used_and_says_by_how_much():
    told = HookOutcome(context=("Remember the rules. " * 1_000,))
    scene = Scene("fork", hooks={"SessionStart": told})
    before = scene.conversation.size.tokens
    made = scene.compact()
    assert isinstance(made, CompactionSkipped)
    (attempt,) = made.attempts
    assert attempt.grows_by is not None
    after = before + attempt.grows_by
    assert attempt.problem == f"the result has {after:,} tokens, at or over what is there now: {before:,}"
    assert made.why == (
        f"A compaction would not make the context smaller: it has {before:,} tokens, and would have "
        f"{after:,} with a summary. Nothing was changed."
    )


def test_an_automatic_compaction_names_the_threshold_that_its_result_exceeds():
    told = HookOutcome(context=("Remember the rules. " * 40_000,))
    scene = Scene("fork", "extractive", hooks={"SessionStart": told})
    made = scene.compact(trigger="auto")
    assert isinstance(made, CompactionFailed)
    auto = 167_000
    for attempt in made.attempts:
        assert attempt.grows_by is not None
        assert attempt.problem == (
            f"the result has {auto + attempt.grows_by:,} tokens, at or over the threshold of {auto:,}"
        )
    advice = (
        "Nothing was changed. You can compact with another strategy (`extractive` needs no model), compact a "
        "part of the conversation (`everturn compact --up-to`), rewind to an earlier message, or start again "
        "with /clear."
    )
    reasons = "; ".join(f"{each.strategy}: {each.problem}" for each in made.attempts)
    assert made.why == f"{reasons}. {advice}"


def test_files_that_would_fill_the_context_are_only_named():
    scene = Scene("fork", file="y = 2\n" * 3_000)
    made = scene.compact()
    assert isinstance(made, Compaction)
    shown = {each.subtype: fields_of(each.blocks[0])["content"] for each in made.restored}
    assert shown["restored_files_left_out"] == [
        "These files were read before the compaction and could not be shown again:",
        "- /p/a.py: it did not fit into the context",
    ]
    small = Scene("fork").compact()
    assert "restored_file" in [each.subtype for each in small.restored]


def test_who_cancels_ends_the_compaction_at_once_and_gets_no_advice():
    gone = ModelFailure("cancelled", "cancelled by the user")
    made = Scene("fork", "direct", "extractive", answers=[gone]).compact()
    assert isinstance(made, CompactionFailed)
    assert made.attempts == (Attempt(strategy="fork", problem="cancelled by the user", failure=gone),)
    assert made.why == "fork: cancelled by the user"


def test_calls_that_are_spent_are_not_made_and_the_reason_is_told():
    scene = Scene("fork", "direct", answers=[DOWN], compact={"calls": 1})
    made = scene.compact()
    assert isinstance(made, CompactionFailed)
    assert [(each.strategy, each.problem) for each in made.attempts] == [
        ("fork", DOWN.message),
        ("direct", "no model is asked again: the calls for this summary (1) are spent"),
    ]
    assert [each.purpose for each in scene.asked] == ["compact"]


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (ModelAnswer((), "refusal", Usage(5)), "the provider gave no summary (stop reason refusal)"),
        (
            ModelAnswer((text_block("x"),), "end_turn", Usage(5)),
            "the provider gave no summary (stop reason end_turn)",
        ),
        (DOWN, DOWN.message),
    ],
)
def test_a_provider_that_gives_no_summary_is_told_with_what_it_cost(answer, problem):
    made = Scene("provider", model="claude-opus-4-6", answers=[answer]).compact()
    assert isinstance(made, CompactionFailed)
    (attempt,) = made.attempts
    usage = answer.usage if isinstance(answer, ModelAnswer) else Usage()
    failure = answer if isinstance(answer, ModelFailure) else None
    assert attempt == Attempt(strategy="provider", problem=problem, usage=usage, failure=failure)


def test_strategies_that_cannot_be_tried_say_why():
    made = Scene("notes", "provider", model="claude-haiku-4-5").compact()
    assert isinstance(made, CompactionFailed)
    assert [(each.strategy, each.problem) for each in made.attempts] == [
        ("notes", "no usable notes found"),
        ("provider", "the provider cannot compact this"),
    ]


def test_a_summary_that_is_not_smaller_than_what_it_replaces_is_not_used():
    short: list[Record] = [b.user("Why? " * 40, uuid="u1"), b.assistant("So. " * 200, id="m1", uuid="a1")]
    made = Scene(
        "direct", records=short, answers=[summary(f"<summary>{'All is well. ' * 300}</summary>")]
    ).compact()
    assert isinstance(made, CompactionSkipped)
    assert all(each.grows_by is not None for each in made.attempts)


def test_a_direct_call_says_that_it_does_not_think_where_the_model_can_be_told():
    def sent(model: str) -> AskModel:
        scene = Scene("direct", compact={"summary_model": model})
        scene.compact()
        return scene.asked[0]

    told = {
        name: sent(name).request.settings for name in ("claude-opus-5", "claude-haiku-4-5", "claude-fable-5")
    }
    assert told == {
        "claude-opus-5": {"max_tokens": 20_000, "thinking": {"type": "disabled"}},
        "claude-haiku-4-5": {"max_tokens": 20_000},
        "claude-fable-5": {"max_tokens": 20_000},
    }
    assert sent("claude-3-5-haiku-latest").request.settings == {"max_tokens": 8_192}
    assert sent("a-model-of-mine").request.model == "a-model-of-mine"


def test_the_words_of_a_refused_answer_are_sent_back_with_the_reason_and_calls_are_not():
    calls = block_from_fields({"type": "tool_use", "id": "t", "name": "Read", "input": {}})
    empty = ModelAnswer((calls, text_block(" ")), "tool_use", Usage(1, 2, 3, 4))
    scene = Scene("direct", answers=[empty, summary()])
    made = scene.compact()
    assert isinstance(made, Compaction)
    assert made.attempts[0].usage == Usage(1_001, 2, 3, 304)
    *_, said, told = scene.asked[1].request.messages
    assert (said.role, [block.kind for block in said.blocks], told.role) == ("assistant", ["text"], "user")
    assert not scene.asked[1].is_overflow_retry


def test_a_message_that_is_nearly_all_of_the_context_is_not_compacted_away():
    newest = b.user("Look at this. " * 9_000, uuid="u9")
    records = [b.user("Hello.", uuid="u1"), b.assistant("Hello.", id="m1", uuid="a1"), newest]
    scene = Scene("fork", records=records)
    size = scene.conversation.size.tokens
    made = scene.compact()
    assert isinstance(made, CompactionSkipped)
    assert made.why.startswith(f"A compaction would enlarge the context, from {size:,} to about ")
    assert made.why.endswith(" tokens: nearly all of it is the newest message, which is kept.")
    alone = Scene("fork", records=[newest])
    size = alone.conversation.size.tokens
    assert alone.compact() == CompactionSkipped(
        f"There is nothing to summarize: all of the {size:,} tokens are the newest message, which is kept."
    )


def test_nothing_is_paid_where_the_smallest_summary_would_enlarge_the_context():
    records = [b.user("Hello.", uuid="u1"), b.assistant("Hello.", id="m1", uuid="a1")]
    scene = Scene("fork", records=records)
    before = scene.conversation.size.tokens
    made = scene.compact()
    assert isinstance(made, CompactionSkipped)
    assert made.why.startswith(f"A compaction would enlarge the context, from {before:,} to at least ")
    assert scene.asked == []


@pytest.mark.parametrize(
    ("form", "told"),
    [
        ("from", "The recent part begins with the message that starts like this:\n> It is mended. It is"),
        ("up_to", "The earlier part ends before the message that starts like this:\n> It is mended. It is"),
    ],
)
def test_a_fork_is_told_where_the_view_is_divided(form, told):
    scene = Scene("fork", records=[QUESTION, *READ, b.user("More. " * 400, uuid="u2"), DONE])
    scene.compact(form=form, at="a2")
    assert told in text_of(scene.asked[0].request.messages[-1].blocks[-1])


def test_what_was_typed_before_all_that_is_summarized_is_not_told():
    scene = Scene(
        "fork", records=[QUESTION, *READ[:2], b.assistant("So. " * 300, id="m3", timestamp=AT), DONE]
    )
    typed = [("Before.", "2026-11-15T10:59:59.000Z"), ("Then.", AT), ("", "2026-11-15T12:00:00.000Z")]
    scene.conversation.take_queued([QueuedMessage(text, "waiting", at) for text, at in typed])
    scene.compact()
    prompt = text_of(scene.asked[0].request.messages[-1].blocks[-1])
    assert ("> Then." in prompt, "Before." in prompt) == (True, False)


def test_a_newest_round_that_is_too_long_for_any_request_is_summarized_without_a_model():
    huge = b.assistant("It is mended. " * 60_000, id="m2", uuid="a2")
    scene = Scene("direct", "extractive", records=[QUESTION, *READ[:2], huge])
    made = scene.compact()
    assert isinstance(made, Compaction)
    assert [(each.strategy, bool(each.text)) for each in made.attempts] == [
        ("direct", False),
        ("extractive", True),
    ]
    assert made.attempts[0].problem == (
        "the newest part of the conversation has at least 210,019 tokens, and claude-sonnet-4-5 takes 200,000"
    )
    assert scene.asked == []


def test_a_long_message_that_was_typed_meanwhile_is_told_without_its_middle():
    scene = Scene("fork")
    whole, long = "w" * 2_000, "x" * 2_400
    scene.conversation.take_queued([QueuedMessage(text, "waiting", AT) for text in (whole, long)])
    scene.compact()
    prompt = text_of(scene.asked[0].request.messages[-1].blocks[-1])
    assert whole in prompt
    assert long not in prompt
    assert 1_800 < prompt.count("x") < 2_100


def test_rules_beyond_the_budget_are_named_by_their_beginning_on_the_receipt():
    rule = "Never push to main before the tests of all packages have passed on a second machine."
    made = Scene(
        "fork", records=[b.user(rule, uuid="u0"), QUESTION, *READ], compact={"pin_tokens": 1}
    ).compact()
    assert isinstance(made, Compaction)
    beginning = "Never push to main before the tests of all packages have ..."
    assert made.receipt.dropped == (f'1 older instruction over the pin budget: "{beginning}"',)


@pytest.mark.parametrize(
    ("is_reactive", "before", "newest", "is_kept"),
    [
        pytest.param(False, 10_000, 60_000, True, id="fits"),
        pytest.param(False, 10_000, 160_000, False, id="does not fit"),
        pytest.param(True, 10_000, 60_000, False, id="refused, and far below the window by estimate"),
        pytest.param(True, 80_000, 60_000, True, id="refused, and near the window by estimate"),
        pytest.param(True, 10_000, 30_000, True, id="refused, and small enough to come along as text"),
    ],
)
def test_the_newest_message_is_kept_where_it_fits_beside_a_summary(is_reactive, before, newest, is_kept):
    said = [b.user("Hi.", uuid="u1"), b.assistant("word" * before, id="m1", uuid="a1")]
    records = [*said, b.user("look" * newest, uuid="u2")]
    made = Scene("extractive", records=records).compact(trigger="auto", is_reactive=is_reactive)
    assert isinstance(made, Compaction)
    assert made.plan is not None
    assert (made.plan.keeps_newest, made.kept is not None) == (is_kept, is_kept)


def test_a_request_that_stays_too_long_is_shortened_as_often_as_the_settings_say():
    refused = ModelFailure("too_long", "prompt is too long", Overflow("vertex"))
    more = [
        record
        for at in range(3, 9)
        for record in (b.user("On.", uuid=f"u{at}"), b.assistant("So. " * 200, id=f"n{at}", uuid=f"b{at}"))
    ]
    scene = Scene("direct", records=[QUESTION, *READ, *more], answers=[refused], compact={"retries": 1})
    made = scene.compact()
    assert isinstance(made, CompactionFailed)
    assert made.attempts[0].problem == "the conversation is still too long to be summarized after 1 retry"
    assert [each.is_overflow_retry for each in scene.asked] == [False, True]
    whole, shorter = (each.request.messages for each in scene.asked)
    # The oldest round, which is the question alone, gave way to a note.
    assert shorter[0].blocks == (TRUNCATED,)
    assert shorter[1:-1] == whole[1:-1]


def test_a_summary_without_a_model_has_the_length_that_is_asked_for_or_as_much_as_it_needs():
    records = [
        QUESTION,
        *READ,
        *(b.user(f"Point {at}: " + "look at it. " * 60, uuid=f"p{at}") for at in range(20)),
    ]
    records.append(DONE)
    sizes = dict[int, int]()
    for tokens in (0, 700, 1_500):
        made = Scene("extractive", records=records, compact={"summary_tokens": tokens}).compact()
        assert isinstance(made, Compaction)
        sizes[tokens] = len(text_of(made.summary.blocks[0]))
    assert sizes[700] < sizes[1_500] < sizes[0]
    assert sizes[700] < 700 * 4 * 2


def test_what_did_not_fit_must_become_smaller_even_below_the_threshold():
    told = HookOutcome(context=("Remember the rules. " * 1_000,))
    scene = Scene("fork", hooks={"SessionStart": told})
    before = scene.conversation.size.tokens
    made = scene.compact(trigger="auto", is_reactive=True)
    assert isinstance(made, CompactionFailed)
    (attempt,) = made.attempts
    assert attempt.grows_by is not None
    assert attempt.problem == (
        f"the result has {before + attempt.grows_by:,} tokens, at or over the threshold of {before:,}"
    )
