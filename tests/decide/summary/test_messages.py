"""Section 6: the user's words, whole; and when they do not fit, the oldest long ones are marked as cut."""

from everturn.decide.extractive.reading.facts import QuotedText
from everturn.decide.extractive.writing.fitting import DroppedEntry
from everturn.decide.extractive.writing.messages import fit_messages, want

RUNGS = (1_000, 100, 40)
NONE = (0, 0)


def test_messages_that_fit_stand_word_for_word():
    said = (QuotedText("one\n\n  two", "u1"), QuotedText("three", "u2"))
    found = fit_messages(said, NONE, want(said, NONE), RUNGS)
    assert found.body == '   - "one\n\n       two"\n   - "three"'
    assert found.dropped == ()


def test_the_oldest_long_message_is_shortened_first():
    old, middle, new = "a" * 2_000, "short", "b" * 2_000
    said = (QuotedText(old, "u1"), QuotedText(middle, "u2"), QuotedText(new, "u3"))
    found = fit_messages(said, NONE, 3_200, RUNGS)
    assert "[… 1,000 characters left out …]" in found.body
    assert f'"{middle}"' in found.body
    assert f'"{new}"' in found.body
    assert found.dropped == (DroppedEntry(6, f"user message {old[:60]!r}", 1_000, "u1"),)


def test_when_even_the_shortest_forms_do_not_fit_the_oldest_go_and_are_counted():
    said = tuple(QuotedText(f"message number {at}", f"u{at}") for at in range(20))
    found = fit_messages(said, (3, 500), 200, RUNGS)
    first = found.body.split("\n")[0]
    kept = found.body.count('"') // 2
    lost = 20 - kept
    characters = 500 + sum(len(each.text) for each in said[:lost])
    assert first == f"   - [the oldest {3 + lost} messages are left out: {characters} characters]"
    assert found.body.endswith('"message number 19"')
    assert [each.record for each in found.dropped] == [f"u{at}" for at in range(lost)]
    assert len(found.body) <= 200


def test_what_is_left_out_is_told_with_all_its_characters_and_what_is_cut_with_the_rest():
    said = tuple(QuotedText(letter * 500, letter) for letter in "abc")
    found = fit_messages(said, NONE, 180, RUNGS)
    assert [(each.record, each.characters) for each in found.dropped] == [
        (letter, 500 if f'"{letter}' not in found.body else 460) for letter in "abc"
    ]
    assert [each.record for each in found.dropped if each.characters == 500]
    assert [each.record for each in found.dropped if each.characters == 460]
