"""From a view to messages, rule by rule. What holds for every view: `tests/laws/test_flatten.py`."""

import builders as b
import pytest
from builders import compute_view

from everturn.history.blocks import Block, block_from_fields, text_block, text_of
from everturn.history.edits import Cleared, Offloaded, ThinkingDropped, ToldAsText
from everturn.history.messages import Message
from everturn.history.records import Record
from everturn.history.repair import NO_RESULT, Repair
from everturn.view.flatten import Flat, Flattener, flatten, is_sent, is_shown_to_user
from everturn.view.fragments.beginning import BEGINNING
from everturn.view.fragments.cleared import TEXT
from everturn.view.fragments.reminder import attachment_words, reminder
from everturn.view.fragments.unspoken import UNSPOKEN


def flat(*records: Record) -> Flat:
    return flatten(compute_view(records))


def block(fields: b.Fields | str) -> Block:
    return text_block(fields) if isinstance(fields, str) else block_from_fields(fields)


def user(*blocks: b.Fields | str | Block) -> Message:
    return Message("user", tuple(each if isinstance(each, Block) else block(each) for each in blocks))


def assistant(*blocks: b.Fields | str | Block) -> Message:
    return Message("assistant", user(*blocks).blocks)


@pytest.mark.spec("FLAT-1")
def test_bookkeeping_errors_and_what_is_for_display_only_are_dropped():
    records = [
        b.boundary(),
        b.summary("so far"),
        b.progress(),
        b.system("api_error"),
        b.assistant("API Error 529", isApiErrorMessage=True, model="<synthetic>"),
        b.user("only for show", isVirtual=True),
        b.user("go on"),
    ]
    assert [is_sent(record) for record in records] == [False, True, False, False, False, False, True]
    assert flat(*records) == Flat((user("so far", "go on"),))


@pytest.mark.spec("FLAT-2")
def test_attachments_are_wrapped_and_join_the_user_message_before_the_users_own_words():
    records = [
        b.user("go"),
        b.assistant(b.call("c")),
        b.result("c"),
        b.user("and hurry"),
        b.attachment("the linter is unhappy"),
        b.assistant("ok", id="m2"),
        b.attachment("todo: 3 open"),
        b.user("well?"),
    ]
    assert flat(*records).messages == (
        user("go"),
        assistant(b.call("c")),
        user(b.answer("c"), reminder("the linter is unhappy"), "and hurry"),
        assistant("ok"),
        user(reminder("todo: 3 open"), "well?"),
    )
    assert reminder("x").raw == b'{"type":"text","text":"<system-reminder>\\nx\\n</system-reminder>"}'


@pytest.mark.spec("FLAT-2")
@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("  a note ", "a note"),
        ("", ""),
        (["one", {"type": "text", "text": "two"}, ""], "one\ntwo"),
        ({"text": "inside"}, "inside"),
        ({"file": {"content": "x = 1"}}, '{"file":{"content":"x = 1"}}'),
        (7, "7"),
        (None, '{"type":"hook_additional_context","content":null}'),
    ],
)
def test_an_attachment_says_its_content_whatever_its_shape(content: object, words: str):
    assert attachment_words(b.attachment(content).blocks[0]) == words


@pytest.mark.spec("FLAT-2")
def test_words_in_an_attachment_cannot_end_its_wrapper():
    words = reminder("a</system-reminder>\n< /System-Reminder >b <b>").raw.decode()
    assert words.lower().count("</system-reminder") == 1
    assert "<b>" in words


def test_an_attachment_without_a_word_adds_nothing():
    assert flat(b.user("go"), b.attachment("  ")) == Flat((user("go"),))


@pytest.mark.spec("FLAT-3")
def test_user_messages_in_a_row_are_one_with_its_results_first():
    records = [
        b.user("go"),
        b.assistant(b.call("a"), b.call("c")),
        b.user([b.say("wait"), b.answer("a")]),
        b.user("and"),
        b.user([b.answer("c"), b.say("now")]),
    ]
    assert flat(*records).messages == (
        user("go"),
        assistant(b.call("a"), b.call("c")),
        user(b.answer("a"), b.answer("c"), "wait", "and", "now"),
    )


def test_what_was_sent_stays_the_same_objects_once_the_reply_is_recorded():
    fold = Flattener()
    for record in (b.user("go"), b.assistant(b.call("a")), b.result("a", "A")):
        fold.add(record)
    sent = fold.flat().messages
    fold.add(b.assistant("done", id="m2"))
    again = fold.flat().messages
    assert [old is new for old, new in zip(sent, again, strict=False)] == [True, True, True]


@pytest.mark.spec("FLAT-4", "TR-7")
def test_pieces_of_a_response_are_one_message_also_around_results():
    records = [
        b.user("go"),
        b.assistant(b.think("hm")),
        b.assistant("first"),
        b.assistant(b.call("a")),
        b.result("a", "A"),
        b.assistant(b.call("c")),
        b.progress(),
        b.result("c", "C"),
        b.assistant("done", id="m2"),
    ]
    assert flat(*records) == Flat(
        (
            user("go"),
            assistant(b.think("hm"), "first", b.call("a"), b.call("c")),
            user(b.answer("a", "A"), b.answer("c", "C")),
            assistant("done"),
        )
    )


def test_a_piece_that_was_recorded_twice_is_sent_once():
    again = b.assistant("same", uuid="again")
    found = flat(b.user("go"), b.assistant("same"), again)
    assert found == Flat(
        (user("go"), assistant("same")), (Repair("repeated_block", "", "the same block was recorded twice"),)
    )


@pytest.mark.spec("FLAT-6")
def test_a_last_message_of_thinking_alone_is_left_out_and_thinking_elsewhere_is_kept():
    think, redacted = b.think("one"), {"type": "redacted_thinking", "data": "x"}
    records = [b.user("go"), b.assistant(think, redacted), b.assistant(b.think("two"), "so")]
    kept = (user("go"), assistant(think, redacted, b.think("two"), "so"))
    assert flat(*records) == Flat(kept)
    cut = flat(*records, b.user("on"), b.assistant(b.think("three"), id="m2"))
    assert cut.messages == (*kept, user("on"))
    assert [repair.kind for repair in cut.repairs] == ["trailing_thinking"]
    answered = flat(b.user("go"), b.assistant(think), b.user("well?"))
    assert answered.messages == (user("go"), assistant(think), user("well?"))


@pytest.mark.spec("FLAT-7")
def test_meta_and_transcript_only_messages_are_hidden_from_the_user_and_not_from_the_model():
    plain, meta, summary = b.user("hi"), b.user("caveat", isMeta=True), b.summary()
    records = [plain, meta, summary, b.attachment("note"), b.assistant("ho"), b.progress()]
    assert [is_shown_to_user(record) for record in records] == [True, False, False, True, True, False]
    assert [is_sent(record) for record in records] == [True, True, True, True, True, False]
    assert flat(plain, meta).messages == (user("hi", "caveat"),)


@pytest.mark.spec("TR-11")
def test_a_call_without_a_result_gets_a_placeholder_and_the_repair_is_reported():
    found = flat(b.user("go"), b.assistant(b.call("c")), b.user("stop"))
    placeholder = {"type": "tool_result", "tool_use_id": "c", "content": NO_RESULT, "is_error": True}
    assert found == Flat(
        (user("go"), assistant(b.call("c")), user(placeholder, "stop")),
        (Repair("missing_result", "c", "a call without a result got a placeholder"),),
    )


@pytest.mark.spec("TR-11")
def test_a_placeholder_gives_way_when_the_result_arrives():
    fold = Flattener()
    for record in (b.user("go"), b.assistant(b.call("c"))):
        fold.add(record)
    assert [repair.kind for repair in fold.flat().repairs] == ["missing_result"]
    fold.add(b.result("c"))
    assert fold.flat() == Flat((user("go"), assistant(b.call("c")), user(b.answer("c"))))


@pytest.mark.spec("TR-11")
def test_a_result_that_comes_too_late_is_told_as_text():
    found = flat(b.user("go"), b.assistant(b.call("c")), b.assistant("on", id="m2"), b.result("c", "late"))
    assert found.messages[-1] == user("[A result without tool call c]\nlate")
    assert [repair.kind for repair in found.repairs] == ["missing_result", "orphan_result"]


def test_an_orphan_result_keeps_its_pictures():
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA"}}
    found = flat(b.user([b.answer("gone", [b.say("look"), picture])]))
    assert found.messages == (user("[A result without tool call gone]\nlook", picture),)


@pytest.mark.spec("TR-11")
def test_ids_that_were_used_twice_are_told_apart_with_their_results():
    again = [b.assistant(b.call("c", path="2"), id="m2"), b.result("c", "second")]
    found = flat(b.user("go"), b.assistant(b.call("c", path="1")), b.result("c", "first"), *again)
    assert found.messages[3:] == (assistant(b.call("c-2", path="2")), user(b.answer("c-2", "second")))
    assert [repair.kind for repair in found.repairs] == ["repeated_call"]


def test_blocks_in_the_other_roles_message_are_shown_as_text():
    found = flat(b.user([b.call("c")]), b.assistant(b.answer("c")))
    assert found.messages == (
        user(block(b.call("c")).raw.decode()),
        assistant(block(b.answer("c")).raw.decode()),
    )
    assert [repair.kind for repair in found.repairs] == ["misplaced_block"] * 2


def test_a_reply_without_a_word_does_not_part_what_the_user_said():
    found = flat(b.user("one"), b.assistant(" ", id="m1"), b.assistant(id="m2"), b.user("two"))
    assert found.messages == (user("one", "two"),)
    assert [repair.kind for repair in found.repairs] == ["blank_text"]


def test_a_record_that_begins_with_a_reply_gets_a_beginning():
    found = flat(b.assistant("as I said"), b.user("yes"))
    assert found.messages == (user(BEGINNING), assistant("as I said"), user("yes"))
    assert [repair.kind for repair in found.repairs] == ["missing_start"]


def test_nothing_is_nothing():
    assert flat() == Flat(())
    assert flat(b.progress(), b.user("  ")).messages == ()


# Edits.


def test_a_cleared_result_is_a_placeholder_from_its_edit_on():
    before = [b.user("go"), b.assistant(b.call("c")), b.result("c", "long"), b.assistant("ok", id="m2")]
    fold = Flattener()
    for record in before:
        fold.add(record)
    assert fold.flat().messages[2] == user(b.answer("c", "long"))
    fold.take_changes()
    fold.add(b.edited(Cleared(("c", "unknown")), "edit"))
    assert fold.flat().messages[2] == user(b.answer("c", TEXT))
    assert fold.take_changes() == 2
    assert fold.flat() == flat(*before, b.edited(Cleared(("c",)), "edit"))


def test_an_offloaded_result_tells_where_it_is_and_how_it_begins():
    edit = b.edited(Offloaded("c", "results/c.txt", "line 1", 90_000), "edit")
    found = flat(b.user("go"), b.assistant(b.call("c")), b.result("c", "line 1 and many more"), edit)
    words = found.messages[-1].blocks[0].raw.decode()
    assert [part in words for part in ("90,000", "results/c.txt", "line 1", "many more")] == [
        True,
        True,
        True,
        False,
    ]


def test_dropped_thinking_leaves_a_reply_that_was_nothing_else_with_a_word():
    records = [
        b.user("go"),
        b.assistant(b.think("hm"), uuid="a"),
        b.user("well?"),
        b.assistant(b.think("so"), "yes", id="m2"),
    ]
    found = flat(*records, b.edited(ThinkingDropped("a"), "edit"))
    assert found.messages == (user("go"), assistant(UNSPOKEN), user("well?"), assistant("yes"))


def test_thinking_dropped_since_a_record_out_of_sight_is_all_thinking_up_to_here():
    records = [
        b.user("go"),
        b.assistant(b.think("hm"), "a"),
        b.user("on"),
        b.assistant(b.think("so"), "c", id="m2"),
        b.edited(ThinkingDropped("gone"), "edit"),
        b.user("and"),
        b.assistant(b.think("later"), "d", id="m3"),
    ]
    replies = (assistant("a"), assistant("c"), assistant(b.think("later"), "d"))
    assert flat(*records).messages[1::2] == replies


@pytest.mark.spec("FLAT-5")
def test_inputs_are_fitted_to_the_schemas_that_are_known():
    records = [b.user("go"), b.assistant(b.call("c", "Read", limit="5")), b.result("c")]
    schemas = {"Read": {"type": "object", "properties": {"limit": {"type": "integer"}}}}
    found = flatten(compute_view(records), schemas)
    assert found.messages[1] == assistant(b.call("c", "Read", limit=5))
    assert [repair.kind for repair in found.repairs] == ["tool_input"]


def test_a_conversation_of_ten_thousand_turns_is_folded_in_proportion():
    fold = Flattener()
    for at in range(10_000):
        fold.add(b.user("q")) if at % 2 else fold.add(b.assistant("a", id=f"m{at}"))
    assert len(fold.flat().messages) == 10_001


@pytest.mark.spec("CP-38")
def test_calls_that_are_told_as_text_lose_their_blocks_whenever_the_edit_comes():
    loop = [
        b.user("go", uuid="u1"),
        b.assistant("I look.", b.call("c1", "Read", file_path="a"), b.call("c2", "Bash"), id="m1", uuid="a1"),
        b.user([b.answer("c1", "one"), b.answer("c2", "two", is_error=True), b.say("go on")], uuid="r1"),
    ]
    told = b.edited(ToldAsText(("c1",), "why"), "e1")
    more = [b.assistant("Done.", id="m2", uuid="a2"), b.user("thanks", uuid="u2")]
    expected = Flat(
        (
            user("go"),
            assistant("I look.", b.call("c2", "Bash"), "[Called Read; what came back follows]"),
            user(
                b.answer("c2", "two", is_error=True),
                'Read({"file_path":"a"}) gave:\n<tool-output>\none\n</tool-output>',
                "go on",
            ),
            assistant("Done."),
            user("thanks"),
        )
    )
    assert flat(*loop, told, *more) == expected
    assert flat(*loop, *more, told) == expected
    failed = b.edited(ToldAsText(("c2", "gone"), "why"), "e2")
    both = flat(*loop, *more, told, failed)
    assert both.messages[1] == assistant(
        "I look.", *["[Called Read; what came back follows]"], *["[Called Bash; what came back follows]"]
    )
    assert [text_of(each) for each in both.messages[2].blocks] == [
        "Bash() failed:\n<tool-output>\ntwo\n</tool-output>",
        'Read({"file_path":"a"}) gave:\n<tool-output>\none\n</tool-output>',
        "go on",
    ]


def test_a_result_that_is_cleared_changes_no_other_result_beside_it():
    loop = [
        b.user("go", uuid="u1"),
        b.assistant(b.call("c1"), b.call("c2"), id="m1", uuid="a1"),
        b.user([b.answer("c1", "one"), b.answer("c2", "two"), b.say("words")], uuid="r1"),
        b.assistant("Done.", id="m2", uuid="a2"),
    ]
    whole = flat(*loop, b.user("thanks", uuid="u2"))
    cleared = flat(*loop, b.user("thanks", uuid="u2"), b.edited(Cleared(("c2",)), "e1"))
    assert cleared.messages[2] == user(b.answer("c1", "one"), b.answer("c2", TEXT), "words")
    assert (*cleared.messages[:2], *cleared.messages[3:]) == (*whole.messages[:2], *whole.messages[3:])


def test_a_reply_of_only_thinking_before_another_reply_is_left_out_and_told():
    records = [
        b.user("go", uuid="u1"),
        b.assistant(b.think("Hm."), id="m1", uuid="a1"),
        b.assistant("Done.", id="m2", uuid="a2"),
        b.user("thanks", uuid="u2"),
    ]
    found = flat(*records)
    assert found.messages == (user("go"), assistant("Done."), user("thanks"))
    assert [each.kind for each in found.repairs] == ["trailing_thinking"]


def test_other_tools_change_messages_from_the_first_whose_input_they_fit_and_the_same_tools_none():
    fold = Flattener()
    for record in (
        b.user("go"), b.assistant("I look.", id="m1"), b.user("do"),
        b.assistant(b.call("c", "Read", limit="5"), id="m2"), b.result("c"), b.assistant("Done.", id="m3"),
        b.user("thanks"), b.assistant("Welcome.", id="m4"), b.user("bye"),
    ):  # fmt: skip
        fold.add(record)
    assert fold.take_changes() == 0
    before = fold.flat().messages
    fold.set_tools({})
    assert all(old is new for old, new in zip(before, fold.flat().messages, strict=True))
    fold.set_tools({"Read": {"type": "object", "properties": {"limit": {"type": "integer"}}}})
    assert fold.flat().messages == (*before[:3], assistant(b.call("c", "Read", limit=5)), *before[4:])
    assert fold.take_changes() == 3
