"""From a view to messages, rule by rule. What holds for every view: `tests/laws/test_flatten.py`."""

import builders as b
import pytest
from builders import compute_view

from everturn.history.blocks import Block, block_from_fields, text_block, text_of
from everturn.history.edits import (
    CacheDeleted,
    CacheDeletionsEnded,
    Cleared,
    Offloaded,
    ThinkingDropped,
    ToldAsText,
)
from everturn.history.messages import Message
from everturn.history.records import Record
from everturn.history.repair import NO_RESULT, Repair
from everturn.view.cache_edits import edits_block
from everturn.view.flatten import Flat, Flattener, flatten, is_sent, is_shown_to_user
from everturn.view.fragments.beginning import BEGINNING
from everturn.view.fragments.cleared import TEXT
from everturn.view.fragments.offloaded import offloaded_words
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
@pytest.mark.parametrize(
    "reply",
    [
        b.assistant("I look.", id="m1", stop="pause_turn"),
        b.record({"type": "assistant", "uuid": "p", "message": {"role": "assistant", "content": "I look."}}),
    ],
    ids=["paused", "prefill"],
)
def test_what_a_compaction_restores_is_placed_before_a_reply_that_the_model_goes_on_with(reply):
    restored = [b.attachment("todo: 3 open", uuid="r1", parent="s"), b.attachment("and more", parent="r1")]
    records = [b.boundary(), b.summary("so far", uuid="s"), b.user("go"), reply, *restored]
    before = user("so far", "go", reminder("todo: 3 open"), reminder("and more"))
    assert flat(*records).messages == (before, assistant("I look."))
    # Where they are does not depend on what follows.
    after = flat(*records, b.assistant("It rains.", id="m2"), b.user("thanks"), b.attachment("late"))
    goes_on = assistant("I look.", "It rains.")
    assert after.messages == (before, goes_on, user(reminder("late"), "thanks"))
    left = flat(*records, b.user("never mind"))
    assert left.messages == (before, assistant("I look."), user("never mind"))


def test_other_attachments_end_a_reply_that_the_model_could_go_on_with():
    """Before it they would change the prompt that its thinking is bound to."""
    paused = b.assistant("I look.", id="m1", stop="pause_turn", uuid="a1")
    told = flat(b.user("go"), paused, b.attachment("it is Monday", parent="a1"))
    assert told.messages == (user("go"), assistant("I look."), user(reminder("it is Monday")))


SEARCHES = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
SYSTEM = {"type": "everturn_system", "text": "Be brief."}


def test_a_search_goes_on_while_results_and_system_messages_come():
    looks = [b.user("look"), b.assistant(SEARCHES, b.call("c1"), id="m1"), b.result("c1")]
    shown = (user("look"), assistant(SEARCHES, b.call("c1")))
    told = flat(*looks, b.user([SYSTEM]))
    assert told == Flat((*shown, user(b.answer("c1"), SYSTEM)))
    # What a compaction restores would end it, so it stands before it.
    looks = [b.boundary(), b.summary("so far", uuid="s"), *looks]
    restored = b.attachment("todo: 3 open", parent="s")
    before = user("so far", "look", reminder("todo: 3 open"))
    assert flat(*looks, restored) == Flat((before, shown[1], user(b.answer("c1"))))
    paused = b.assistant(FOUND, {**SEARCHES, "id": "s2"}, id="m2", stop="pause_turn")
    goes_on = assistant(FOUND, {**SEARCHES, "id": "s2"})
    assert flat(*looks, paused, restored) == Flat((before, shown[1], user(b.answer("c1")), goes_on))


@pytest.mark.parametrize("behind", [[b.user("stop")], [b.result("c1"), b.user("stop")]])
def test_a_search_ends_when_the_user_speaks(behind):
    found = flat(b.user("look"), b.assistant(SEARCHES, b.call("c1"), id="m1"), *behind)
    assert "server_call" in [repair.kind for repair in found.repairs]


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


def folded(*records: Record, **options) -> Flattener:
    fold = Flattener(**options)
    for record in records:
        fold.add(record)
    return fold


def test_every_record_has_the_place_of_its_message_and_one_out_of_view_has_none():
    fold = folded(
        b.user("one", uuid="u1"),
        b.progress("p1"),
        b.assistant("a", id="m1", uuid="a1"),
        b.system(uuid="s1"),
        b.user("two", uuid="u2"),
        b.assistant("late", id="m1", uuid="a2"),
        b.attachment("x", uuid="x1"),
        b.assistant("b", id="m2", uuid="a3"),
        b.assistant(" ", id="m3", uuid="a4"),
    )
    names = ("u1", "p1", "a1", "s1", "u2", "a2", "x1", "a3", "a4", "gone")
    assert [fold.place_of(name) for name in names] == [0, 0, 1, 2, 2, 1, 2, 3, 4, -1]
    assert [message.role for message in fold.flat().messages] == ["user", "assistant", "user", "assistant"]


def test_messages_from_a_place_on_are_the_end_of_all_messages():
    fold = folded(
        b.user("one"),
        b.assistant("a", id="m1"),
        b.user("two"),
        b.assistant(b.call("c"), id="m2"),
        b.result("c"),
    )
    whole = fold.flat().messages
    assert [fold.since(first) for first in range(4)] == [list(whole[first:]) for first in range(4)]
    assert len(whole) == 5


@pytest.mark.parametrize(
    ("until", "kept"),
    [("", []), ("a1", ["one", "two", "three"]), ("a2", ["two", "three"]), ("a3", ["three"]),
     ("gone", ["one", "two", "three"])],
)  # fmt: skip
def test_thinking_is_dropped_up_to_a_record_which_keeps_its_own(until: str, kept: list[str]):
    records = []
    for at, word in enumerate(("one", "two", "three"), 1):
        records += [b.user(f"u{at}"), b.assistant(b.think(word), word, id=f"m{at}", uuid=f"a{at}")]
    found = flat(*records, b.edited(ThinkingDropped("a1", until=until), "edit"))
    blocks = [each for message in found.messages for each in message.blocks]
    assert [text_of(each) for each in blocks if each.is_thinking] == kept


def test_thinking_dropped_since_the_open_turn_leaves_the_closed_ones():
    records = [
        b.user("u1"),
        b.assistant(b.think("one"), "a", id="m1", uuid="a1"),
        b.user("u2"),
        b.assistant(b.think("two"), "b", id="m2", uuid="a2"),
    ]
    fold = folded(*records)
    fold.take_changes()
    fold.add(b.edited(ThinkingDropped("a2"), "edit"))
    assert fold.flat().messages == (user("u1"), assistant(b.think("one"), "a"), user("u2"), assistant("b"))
    assert fold.take_changes() == 3


def test_deletions_stand_where_they_were_made_until_they_end_and_results_stay_sent():
    loop = [b.user("go"), b.assistant(b.call("c"), id="m1"), b.result("c", "x"), b.assistant("ok", id="m2")]
    fold = folded(*loop, b.user("on"))
    fold.take_changes()
    fold.add(b.edited(CacheDeleted(("c", "gone")), "e1"))
    assert (fold.deleted, fold.take_changes()) == ({"c", "gone"}, 2)
    edits = edits_block(("c", "gone"))
    assert fold.flat().messages[2:] == (user(b.answer("c", "x")), assistant("ok"), user(edits, "on"))
    for record in (b.assistant("yes", id="m3"), b.user("more")):
        fold.add(record)
    fold.take_changes()
    fold.add(b.edited(CacheDeletionsEnded(), "e2"))
    assert (fold.deleted, fold.take_changes()) == (set(), 2)
    assert fold.flat().messages[2:] == (
        user(b.answer("c", "x")),
        assistant("ok"),
        user("on"),
        assistant("yes"),
        user("more"),
    )


def test_deletions_alone_are_no_answer():
    fold = folded(b.user("go"), b.assistant("a", id="m1"), b.edited(CacheDeleted(("c",)), "e1"))
    fold.add(b.assistant("b", id="m2"))
    assert fold.flat().messages == (user("go"), assistant("a", "b"), user(edits_block(("c",))))


def test_a_result_that_was_hidden_before_the_view_is_hidden_when_it_comes():
    edit = Offloaded("o", "results/o.txt", "line 1", 90_000)
    fold = folded(
        b.user("go"),
        b.assistant(b.call("c"), b.call("o"), b.call("p"), id="m1"),
        b.user([b.answer("c", "x"), b.answer("o", "y"), b.answer("p", "z")]),
        hidden=["c"],
        offloaded={"o": edit, "c": edit},
    )
    shown = offloaded_words(90_000, "results/o.txt", "line 1")
    assert fold.flat().messages[2] == user(b.answer("c", TEXT), b.answer("o", shown), b.answer("p", "z"))


def test_a_summary_stands_before_attachments_and_words_whenever_it_comes():
    found = flat(b.user("words"), b.attachment("note"), b.summary("In short."), b.user("more"))
    assert found.messages == (user("In short.", reminder("note"), "words", "more"),)


def test_each_repair_of_a_message_is_told_with_its_call_and_what_was_done():
    found = flat(
        b.assistant(b.call("c"), " ", id="m1"),
        b.user([b.call("d"), b.think("hm"), b.say(" ")]),
        b.assistant(b.answer("e"), id="m2"),
        b.assistant(b.think("so"), id="m3"),
    )
    assert [(each.kind, each.where, each.what) for each in found.repairs] == [
        ("blank_text", "", "a text without a visible character is left out"),
        ("misplaced_block", "d", "a tool_use block in the other role's message is shown as text"),
        ("misplaced_block", "", "a thinking block in the other role's message is shown as text"),
        ("blank_text", "", "a text without a visible character is left out"),
        ("misplaced_block", "e", "a tool_result block in the other role's message is shown as text"),
        ("missing_result", "c", "a call without a result got a placeholder"),
        ("missing_start", "", "the log begins with a reply; a first message was added before it"),
    ]


def test_a_result_of_an_earlier_turn_that_is_offloaded_changes_its_message_alone():
    loop = [
        b.user("go"),
        b.assistant(b.call("c"), id="m1"),
        b.result("c", "long"),
        b.assistant("ok", id="m2"),
    ]
    fold = folded(*loop, b.user("on"))
    before = fold.flat().messages
    fold.take_changes()
    fold.add(b.edited(Offloaded("c", "results/c.txt", "lo", 4), "edit"))
    shown = user(b.answer("c", offloaded_words(4, "results/c.txt", "lo")))
    assert fold.flat().messages == (*before[:2], shown, *before[3:])
    assert fold.take_changes() == 2
