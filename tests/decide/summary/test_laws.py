"""What holds for every log: no exception, within the budget, the same bytes, no user's word lost silently."""

from collections.abc import Sequence

import builders as b
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_logs import broken_logs, sound_logs

from everturn.decide.extractive import Summary, summarize
from everturn.decide.extractive.reading.earlier import parse_summary
from everturn.decide.extractive.reading.sentences import standing_rules
from everturn.decide.extractive.reading.walk import human_words
from everturn.decide.extractive.writing.quoting import escaped, original_length
from everturn.decide.retention import measure_retention
from everturn.history.records import Record
from everturn.history.threads import split_threads
from everturn.measure.tokens import rough
from everturn.replay.synthetic import SessionShape, generate_session
from everturn.view.fragments.summary_message import summary_message
from everturn.wire.claude_code_reader import parse_session_file

BUDGETS = st.sampled_from([0, 1, 40, 200, 400, 800, 2_000, 8_000])
FORMS = st.sampled_from(["full", "from", "up_to"])
# Words with everything in them that a summary is made of.
PIECES = st.sampled_from(
    [
        "please", "the parser", "\n", "\n\n", "   - ", '"', "6. All user messages:", "</summary>", "> quoted",
        "[… 3 characters left out …]", "Never push it.", "é…\u2028", "```",
        "1. Primary request and intent:\n",
        "[the oldest 2 messages are left out: 9 characters]", "x" * 700, "(read 2×)", "standing: ", "\t",
    ]
)  # fmt: skip
WORDS = st.lists(PIECES, min_size=1, max_size=8).map(" ".join)
GENERATIONS = 20


@st.composite
def talks(draw: st.DrawFn) -> list[Record]:
    """Anything a log may be, with people who say difficult things in between."""
    records = list(draw(st.one_of(broken_logs(edits=True), sound_logs())))
    for at, words in enumerate(draw(st.lists(WORDS, max_size=5))):
        records.insert(draw(st.integers(0, len(records))), b.user(words, uuid=f"said {at}"))
    if draw(st.booleans()):
        records = [b.boundary(), b.summary(draw(WORDS)), *records]
    return records


def said_in(records: Sequence[Record]) -> list[str]:
    return [words for record in records if (words := human_words(record))]


def accounted(messages: Sequence[str], summary: Summary) -> bool:
    """Every message is on the page, in order, whole or marked as cut; the rest is the oldest, and counted."""
    found = parse_summary(summary.text)
    missing, characters = found.missing
    # No text in these tests has the escape of its own.
    shown = [said.text.replace("&lt;", "<") for said in found.messages]
    gone, rest = messages[:missing], messages[missing:]
    if len(shown) != len(rest) or characters != sum(map(original_length, gone)):
        return False
    pairs = zip(shown, rest, strict=True)
    return all(there == whole or original_length(there) == original_length(whole) for there, whole in pairs)


@pytest.mark.spec("BY-5")
@given(talks(), BUDGETS, FORMS, WORDS)
def test_a_summary_of_anything_is_within_its_budget_and_always_the_same(records, budget, form, asked):
    summary = summarize(records, budget=budget, form=form, instructions=asked)
    assert rough(summary.text) <= budget
    assert summarize(records, budget=budget, form=form, instructions=asked) == summary


@pytest.mark.spec("BY-5")
@given(st.lists(WORDS, max_size=12), st.sampled_from([500, 1_000, 8_000]))
def test_every_message_of_the_user_is_there_word_for_word_or_marked_as_cut(messages, budget):
    records = [b.user(words, uuid=f"u{at}") for at, words in enumerate(messages)]
    summary = summarize(records, budget=budget)
    assert accounted(said_in(records), summary)
    said = [record.uuid for record in records if human_words(record)]
    found = parse_summary(summary.text)
    # Two messages may be equal and only one of them cut: what is compared is their places.
    shown = [None] * found.missing[0] + [message.text for message in found.messages]
    whole = [escaped(message) for message in said_in(records)]
    cut = [uuid for uuid, there, words in zip(said, shown, whole, strict=True) if there != words]
    assert [each.record for each in summary.dropped if each.section == 6] == cut


def much_of_everything() -> list[Record]:
    """More of each kind than a small budget holds, so that every section has something to leave out."""
    found: list[Record] = []
    for at in range(40):
        told = f"Step {at} was slow because of part_{at}. Next I will look at part_{at + 1} of it."
        task = b.call(f"t{at}", "TaskCreate", subject=f"look at part_{at} once more")
        run = b.call(f"c{at}", "Bash", command=f"make part_{at} with all of its options")
        touch = b.call(f"w{at}", "Write", file_path=f"/p/part_{at}.py", content="x = 1\n" * 20)
        found += [
            b.user(f"Never touch part_{at} again. " + "word " * 60, uuid=f"u{at}"),
            b.assistant(told, task, touch, run, id=f"m{at}"),
            b.user([b.answer(f"c{at}", f"part_{at} is missing", is_error=True)], uuid=f"r{at}"),
        ]
    return found


@pytest.mark.parametrize("form", ["full", "from", "up_to"])
def test_a_budget_above_the_headings_never_chops_a_section(form):
    records = much_of_everything()
    for budget in range(300, 1_500, 53):
        summary = summarize(records, budget=budget, form=form)
        assert rough(summary.text) <= budget
        assert summary.text.endswith(f":\n{summary.sections[9]}\n")
        assert all(f":\n{body}\n" in summary.text for body in summary.sections.values())


@pytest.mark.spec("BY-5")
@settings(max_examples=15)
@given(st.lists(st.lists(WORDS, max_size=3), min_size=GENERATIONS, max_size=GENERATIONS), st.data())
def test_twenty_compactions_in_a_row_lose_no_standing_instruction(generations, data):
    rules = [f"Never touch module_{at} of the project." for at in range(GENERATIONS)]
    before: list[Record] = []
    everything: list[str] = []
    summary = summarize([])
    for at, (rule, words) in enumerate(zip(rules, generations, strict=True)):
        new = [b.user(f"{text}\n{rule}", uuid=f"u{at}-{i}") for i, text in enumerate(words or ["go on"])]
        new += data.draw(sound_logs(most=1))
        everything += said_in(new)
        summary = summarize([*before, *new])
        before = [
            b.boundary(f"b{at}"),
            b.summary(
                summary_message(summary.text, form="full", transcript="", resuming="directly"), uuid=f"s{at}"
            ),
        ]
    standing = parse_summary(summary.text).standing
    assert [rule for rule in rules if rule not in standing] == []
    assert accounted(everything, summary)


@pytest.mark.spec("BY-5")
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_made_up_session_is_summarized_whole(seed):
    lines = generate_session(
        seed=seed, tokens=60_000, shape=SessionShape(boundaries=0, sidechains=0, images=0)
    )
    records = split_threads(parse_session_file(b"\n".join(lines)).records).main.records
    summary = summarize(records)
    assert accounted(said_in(records), summary)
    rules = [rule for text in said_in(records) for rule in standing_rules(text, 300)]
    assert rules
    assert all(rule in summary.sections[1] for rule in rules)
    assert "(none)" not in summary.sections[3] + summary.sections[4]


@pytest.mark.parametrize(
    "piece", ["=", " ", "x", "a.", "<", "> ", "- ", "\n", "\n ", "/a", '"', "a_B", "e: "]
)
def test_endless_repetition_of_anything_takes_no_endless_time(piece):
    """A pattern that backtracks would need hours here; nothing is measured, it would just never end."""
    text = piece * 100_000 + "!"
    failed = b.user([b.answer("c1", text, is_error=True), b.answer("c2", f"FAILED {text}")], uuid="r")
    sections = f"3. Files and code sections:\n   - {text}\n6. All user messages:\n   - {text}"
    records = [
        b.summary(f"1. Primary request and intent:\n{text}\n{sections}"),
        b.user(text, uuid="u"),
        b.assistant(text, b.call("c1", "Edit", file_path=text, new_string=text), id="m1"),
        b.assistant(b.call("c2", "Bash", command=text), id="m2"),
        failed,
    ]
    summary = summarize(records, instructions=text)
    assert rough(summary.text) <= 8_000
    assert measure_retention(records, summary.text).score >= 0


def test_a_made_up_session_keeps_its_messages_through_twenty_compactions():
    lines = generate_session(seed=5, tokens=60_000, shape=SessionShape(boundaries=0, sidechains=0, images=0))
    records = list(split_threads(parse_session_file(b"\n".join(lines)).records).main.records)
    step = len(records) // GENERATIONS + 1
    view: list[Record] = []
    summary = summarize([])
    for start in range(0, len(records), step):
        summary = summarize([*view, *records[start : start + step]])
        view = [b.boundary(f"b{start}"), b.summary(summary.text, uuid=f"s{start}")]
    assert accounted(said_in(records), summary)
